package pretokenize

import "github.com/essmc/essmc/frontend/tokenizer/internal/part"

// behavior is what becomes of the delimiters that divide a text.
type behavior int

const (
	removed    behavior = iota // they are no pieces
	isolated                   // each is a piece
	contiguous                 // neighbours are one piece
	previous                   // each belongs to the piece before it
	next                       // each belongs to the piece behind it
)

var behaviors = map[string]behavior{"Removed": removed, "Isolated": isolated, "Contiguous": contiguous,
	"MergedWithPrevious": previous, "MergedWithNext": next}

// behaviorOf reads the behavior of a part.
func behaviorOf(o *part.Object, or string) behavior {
	return behaviors[o.Choice("behavior", or, "Removed", "Isolated", "Contiguous", "MergedWithPrevious",
		"MergedWithNext")]
}

// divider makes pieces of the delimiters of a text, and of what is between them.
type divider struct {
	behavior
	out []Piece

	held      Piece // waits for what belongs to it, if any is true
	any       bool
	delimiter bool // what came last was a delimiter
}

// add takes the next part of the text, a delimiter or what is between two. Together they are the text.
func (d *divider) add(from, to int, delimiter bool) {
	switch d.behavior {
	case removed:
		if !delimiter {
			d.push(from, to)
		}
		return
	case isolated:
		d.push(from, to)
		return
	}
	var joined bool
	switch d.behavior {
	case contiguous:
		joined = delimiter == d.delimiter
	case previous:
		joined = delimiter && !d.delimiter
	case next:
		joined = !delimiter && d.delimiter
	}
	if d.any && joined {
		d.held.To = int32(to)
	} else {
		d.flush()
		d.held, d.any = Piece{int32(from), int32(to)}, true
	}
	d.delimiter = delimiter
}

// end ends a text.
func (d *divider) end() {
	d.flush()
	d.delimiter = false
}

func (d *divider) flush() {
	if d.any {
		d.push(int(d.held.From), int(d.held.To))
		d.any = false
	}
}

func (d *divider) push(from, to int) {
	if from < to {
		d.out = append(d.out, Piece{int32(from), int32(to)})
	}
}
