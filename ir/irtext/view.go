package irtext

import (
	"strings"

	"github.com/essmc/essmc/ir"
)

// Kind says what a piece of the text is, for those who colour it.
type Kind string

// Kinds of tokens.
const (
	Plain   Kind = ""
	Keyword Kind = "keyword" // the name of a graph
	Name    Kind = "name"    // a value
	Op      Kind = "op"
	Type    Kind = "type"
	Attr    Kind = "attr"
	Literal Kind = "literal"
	Comment Kind = "comment"
)

// Token is a piece of a graph's text.
type Token struct {
	Kind Kind
	Text string
	// Value is the value that a Name stands for.
	Value *ir.Value
	// Node is the node that an Op belongs to.
	Node *ir.Node
}

// viewElems is how many elements of a constant people are shown: axes, shapes and scalars.
const viewElems = 8

// View hands out the text of g as people read it, piece by piece: the content of constants only where it is short, the types
// of values behind the nodes that compute them, scopes as headings, the list of constants at the end. It takes graphs that Verify refuses, so that they can
// be looked at. Parse does not read it.
func View(g *ir.Graph, emit func(Token)) {
	p := &printer{emit: emit, view: true, consts: homes(g)}
	p.graph(g, true)
	p.plain("\n")
}

// ViewString is the text that View hands out.
func ViewString(g *ir.Graph) string {
	var b strings.Builder
	View(g, func(t Token) { b.WriteString(t.Text) })
	return b.String()
}
