package pattern

// A node is a parsed expression.
type node interface{}

type (
	one       struct{ set *set }    // one character of a set
	sequence  struct{ list []node } // one after the other; an empty one matches the empty string
	choice    struct{ list []node } // the first that leads to a match
	foldedRun struct{ text []rune } // a literal whose full case folding is text

	// repeat is a quantifier; max is -1 for no bound.
	repeat struct {
		node     node
		min, max int
		kind     kind
	}
	atomic struct{ node node }
	look   struct {
		node             node
		behind, negative bool
	}
	assertion struct{ what assert }
)

type kind uint8

const (
	greedy kind = iota
	lazy
	possessive
)

type assert uint8

const (
	lineStart   assert = iota // ^
	lineEnd                   // $
	textStart                 // \A
	textEnd                   // \z
	textEndNL                 // \Z: the end, or before a last \n
	wordEdge                  // \b
	notWordEdge               // \B
)

// nullable reports whether a node can match the empty string.
func nullable(n node) bool {
	switch n := n.(type) {
	case one:
		return false
	case foldedRun:
		return len(n.text) == 0
	case sequence:
		for _, x := range n.list {
			if !nullable(x) {
				return false
			}
		}
		return true
	case choice:
		for _, x := range n.list {
			if nullable(x) {
				return true
			}
		}
		return false
	case repeat:
		return n.min == 0 || nullable(n.node)
	case atomic:
		return nullable(n.node)
	}
	return true
}

// length returns how many characters a node matches, if that is one number.
func length(n node) (int, bool) {
	switch n := n.(type) {
	case one:
		return 1, true
	case foldedRun:
		return len(n.text), !foldsLonger(n.text)
	case sequence:
		sum := 0
		for _, x := range n.list {
			k, ok := length(x)
			if !ok || sum+k > maxBehind {
				return 0, false
			}
			sum += k
		}
		return sum, true
	case choice:
		first, ok := length(n.list[0])
		for _, x := range n.list[1:] {
			k, also := length(x)
			ok = ok && also && k == first
		}
		return first, ok
	case repeat:
		k, ok := length(n.node)
		if !ok || n.min != n.max || k*n.min > maxBehind {
			return 0, false
		}
		return k * n.min, true
	case atomic:
		return length(n.node)
	}
	return 0, true // assertions and looks
}

// maxBehind bounds how many characters look-behind steps back.
const maxBehind = 1 << 12
