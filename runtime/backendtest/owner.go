package backendtest

import (
	"context"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/runtime"
)

// owned checks the ownership of data: a run only reads in, and its caller owns got. It overwrites got, so that
// memory that got shares with the session, with in or with constants shows in the next run.
func owned(t testing.TB, what string, session *runtime.Session, in, got Data) {
	t.Helper()
	given, first := copyData(in), copyData(got)
	for _, name := range names(got) {
		opstest.Spoil(got[name])
	}
	again, err := session.Run(context.Background(), in)
	if err != nil {
		t.Errorf("%s: again: %v", what, err)
		return
	}
	if err := identical(first, again); err != nil {
		t.Errorf("%s: again, when the first answer was written to: %v", what, err)
	}
	if err := identical(given, in); err != nil {
		t.Errorf("%s: inputs are written to: %v", what, err)
	}
}

func copyData(d Data) Data {
	c := Data{}
	for name, x := range d {
		c[name] = opstest.Copy(x)
	}
	return c
}

// sameDatum reports whether two data are equal bit by bit.
func sameDatum(a, b tensor.Datum) bool {
	switch a := a.(type) {
	case *tensor.Tensor:
		b, ok := b.(*tensor.Tensor)
		return ok && tensor.Equal(a, b)
	case *tensor.Sequence:
		b, ok := b.(*tensor.Sequence)
		return ok && slices.EqualFunc(a.Items, b.Items, sameDatum)
	case *tensor.Optional:
		b, ok := b.(*tensor.Optional)
		return ok && sameDatum(a.Value, b.Value)
	}
	return b == nil
}
