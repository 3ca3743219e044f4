"""FileQA: files (PDF, Office, EPUB, HTML, Markdown, text in any encoding) to text with its sources."""
