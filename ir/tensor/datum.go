package tensor

// Datum is a value at run time: a *Tensor, a *Sequence, an *Optional, or nil where an optional input or output is
// absent.
type Datum interface{ isDatum() }

// Sequence is an ordered list of data of one type.
type Sequence struct{ Items []Datum }

// Optional holds one Datum or nothing (Value is nil).
type Optional struct{ Value Datum }

func (*Tensor) isDatum()   {}
func (*Sequence) isDatum() {}
func (*Optional) isDatum() {}
