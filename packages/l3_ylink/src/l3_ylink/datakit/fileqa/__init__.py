"""FileQA: from a file (HTML, Markdown, PDF, DOCX, plain text) to its text."""
