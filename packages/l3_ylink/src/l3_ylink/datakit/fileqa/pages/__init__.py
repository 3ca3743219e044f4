"""PDF pages: characters, lines, columns, tables and blocks from what pdfium reports."""
