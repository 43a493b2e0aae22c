package irtext

import (
	"strings"

	"github.com/essmc/essmc/ir"
)

// Kind is the kind of a token, for coloring.
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
	// Value is the value of a Name.
	Value *ir.Value
	// Node is the node of an Op.
	Node *ir.Node
}

// viewElems is the largest number of elements that View shows of a constant: enough for axes, shapes and scalars.
const viewElems = 8

// View emits the text of g for people, token by token: the content of constants only where it is short, the types of
// values after the nodes that compute them, scopes as headings, the list of constants at the end. It takes graphs that
// Verify refuses, to show them. Parse does not read the text.
func View(g *ir.Graph, emit func(Token)) {
	p := &printer{emit: emit, view: true, consts: homes(g)}
	p.graph(g, true)
	p.plain("\n")
}

// ViewString returns the text that View emits.
func ViewString(g *ir.Graph) string {
	var b strings.Builder
	View(g, func(t Token) { b.WriteString(t.Text) })
	return b.String()
}
