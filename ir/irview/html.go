package irview

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
)

// Column is the graph after one pass.
type Column struct {
	Name  string   // name of the pass
	Notes []string // its actions with their reasons; those that start with "warning: " are highlighted
	// Graph is the graph after the pass; nil if there is none. HTML reads it, so callers clone a graph that later passes
	// change.
	Graph *ir.Graph
	// Changes is the number of rewrites.
	Changes int
	// Err is the message of an error in or after the pass; empty: none.
	Err string
}

var (
	//go:embed page.css
	css string
	//go:embed page.js
	script string
)

// HTML writes a page that shows the columns side by side. Passes that did not change the text of the graph are listed in
// the column before them. Lines that the column before does not have are marked. Pointing at a value highlights it in all
// columns, and a click keeps the highlight.
func HTML(w io.Writer, title string, columns []Column) error {
	var b strings.Builder
	esc := html.EscapeString
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	b.WriteString(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">` + "\n")
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n", esc(clean(title)), css)
	fmt.Fprintf(&b, "<header><h1>%s</h1><p>Click a value to mark it in all columns, Esc to clear; click a column's name to fold it. A bar marks lines that the column before does not have.</p></header>\n<main>\n", esc(clean(title)))
	var last []line
	var lastText string
	for i := 0; i < len(columns); i++ {
		c := columns[i]
		var lines []line
		text := ""
		if c.Graph != nil {
			lines, text = render(c.Graph)
		}
		b.WriteString("<section>\n")
		heading(&b, c)
		for i+1 < len(columns) && columns[i+1].Err == "" && c.Graph != nil && columns[i+1].Graph != nil {
			if _, next := render(columns[i+1].Graph); next != text {
				break
			}
			i++
			b.WriteString("<div class=\"unchanged\">")
			heading(&b, columns[i])
			b.WriteString("</div>\n")
		}
		if c.Graph != nil {
			writeLines(&b, lines, last, lastText != "")
			last, lastText = lines, text
		}
		b.WriteString("</section>\n")
	}
	fmt.Fprintf(&b, "</main>\n<script>\n%s</script>\n</body>\n</html>\n", script)
	_, err := io.WriteString(w, b.String())
	return err
}

// heading writes the name, notes and error of a pass.
func heading(b *strings.Builder, c Column) {
	esc := func(s string) string { return html.EscapeString(clean(s)) }
	b.WriteString("<h2><button type=\"button\">" + esc(c.Name) + "</button>")
	switch c.Changes {
	case 0:
	case 1:
		b.WriteString(" <small>1 change</small>")
	default:
		fmt.Fprintf(b, " <small>%d changes</small>", c.Changes)
	}
	b.WriteString("</h2>\n")
	if c.Err != "" {
		b.WriteString("<p class=\"err\">" + esc(c.Err) + "</p>\n")
	}
	if len(c.Notes) > 0 {
		b.WriteString("<ul>\n")
		for _, n := range c.Notes {
			class := ""
			if strings.HasPrefix(n, "warning: ") {
				class = ` class="warn"`
			}
			b.WriteString("<li" + class + ">" + esc(n) + "</li>\n")
		}
		b.WriteString("</ul>\n")
	}
}

// line is one line of a graph, as text and as markup.
type line struct{ text, markup string }

// key returns the text by which lines are compared. It ignores indentation and trailing commas.
func (l line) key() string { return strings.TrimRight(strings.TrimSpace(l.text), ",") }

// render returns the lines of a graph, and the text as a whole.
func render(g *ir.Graph) ([]line, string) {
	var out []line
	var text, markup, all strings.Builder
	flush := func() {
		out = append(out, line{text.String(), markup.String()})
		text.Reset()
		markup.Reset()
	}
	irtext.View(g, func(t irtext.Token) {
		all.WriteString(t.Text)
		for i, part := range strings.Split(t.Text, "\n") {
			if i > 0 {
				flush()
			}
			text.WriteString(part)
			part = html.EscapeString(clean(part))
			switch {
			case part == "":
			case t.Value != nil:
				name, typ := html.EscapeString(clean(t.Value.Name)), html.EscapeString(clean(typeOf(t.Value)))
				fmt.Fprintf(&markup, `<b data-v="%s" title="%s">%s</b>`, name, typ, part)
			case t.Kind == irtext.Plain:
				markup.WriteString(part)
			default:
				fmt.Fprintf(&markup, `<i class="%s">%s</i>`, t.Kind, part)
			}
		}
	})
	if text.Len() > 0 {
		flush()
	}
	return out, all.String()
}

// writeLines writes the graph, and marks the lines that are not among those of the column before.
func writeLines(b *strings.Builder, lines, before []line, compare bool) {
	old := map[string]bool{}
	for _, l := range before {
		old[l.key()] = true
	}
	b.WriteString("<pre>")
	for _, l := range lines {
		if compare && !old[l.key()] {
			b.WriteString("<ins>" + l.markup + "\n</ins>")
		} else {
			b.WriteString("<s>" + l.markup + "\n</s>")
		}
	}
	b.WriteString("</pre>\n")
}

// clean replaces characters that HTML cannot hold even when escaped.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
