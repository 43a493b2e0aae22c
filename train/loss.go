package train

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Labels is the input of a training graph with what the model should answer.
const Labels = "labels"

// Loss says how far the outputs of a model are from the labels.
type Loss interface {
	// add adds the labels as an input, and the nodes that compute the loss, a scalar.
	add(b *ir.Builder, out *ir.Value) *ir.Value
	// labels returns the type of the labels of a model with this output.
	labels(out *ir.TensorType) (*ir.TensorType, error)
}

// CrossEntropy is the mean cross entropy of classes: of (samples, classes) and one label a sample, or of
// (samples, steps, classes) and one label a step. Labels are int64, from 0.
type CrossEntropy struct {
	// Smoothing is the share of the target that all classes have in equal parts (Szegedy et al., 2016).
	Smoothing float64
	// Ignore is a label that does not count, such as -1 for padding; it must not be a class. Labels are below the
	// number of classes otherwise. Nil: every label counts.
	Ignore *int64
}

func (c CrossEntropy) labels(out *ir.TensorType) (*ir.TensorType, error) {
	if len(out.Shape) < 2 || !out.Elem.IsFloat() {
		return nil, fmt.Errorf("cross entropy: expected outputs (samples, classes) or (samples, steps, classes), found %v", out)
	}
	if !(c.Smoothing >= 0 && c.Smoothing < 1) {
		return nil, fmt.Errorf("cross entropy: expected a smoothing from 0 to below 1, found %g", c.Smoothing)
	}
	if c.Smoothing > 0 && c.Ignore != nil {
		return nil, fmt.Errorf("cross entropy: smoothing and a label to ignore exclude each other")
	}
	return &ir.TensorType{Elem: tensor.Int64, Shape: out.Shape[:len(out.Shape)-1]}, nil
}

func (c CrossEntropy) add(b *ir.Builder, out *ir.Value) *ir.Value {
	t, err := c.labels(out.Type.(*ir.TensorType))
	if err != nil {
		b.Fail(err)
		return nil
	}
	labels := b.Input(Labels, t)
	if rows := len(out.Shape()); rows > 2 { // classes are the second axis of the operator's input
		classes, ok := out.Shape()[rows-1].Known()
		if !ok {
			b.Fail(fmt.Errorf("cross entropy: expected a known number of classes, found %v", out.Type))
			return nil
		}
		out = b.Op("", "Reshape", []*ir.Value{out, b.Ints(-1, classes)})
		labels = b.Op("", "Reshape", []*ir.Value{labels, b.Ints(-1)})
	}
	attrs := []ir.Attr{ir.A("reduction", "mean")}
	if c.Ignore != nil {
		attrs = append(attrs, ir.A("ignore_index", *c.Ignore))
	}
	loss := b.Op("", "SoftmaxCrossEntropyLoss", []*ir.Value{out, labels}, attrs...)
	if c.Smoothing == 0 {
		return loss
	}
	logs := b.Op("", "LogSoftmax", []*ir.Value{out}, ir.A("axis", -1))
	mean := b.Op("", "ReduceMean", []*ir.Value{logs}, ir.A("keepdims", 0))
	x := scalar.Inputs(2)
	return ops.MapOf(b, scalar.Sub(scalar.Mul(scalar.Const(1-c.Smoothing), x[0]), scalar.Mul(scalar.Const(c.Smoothing), x[1])),
		loss, mean)
}

// Binary is the mean cross entropy of yes and no: of any number of logits a sample, and as many labels, which are
// floats from 0 to 1. It is torch.nn.BCEWithLogitsLoss.
type Binary struct{}

func (Binary) labels(out *ir.TensorType) (*ir.TensorType, error) {
	return sameAs(out, "binary cross entropy")
}

func (l Binary) add(b *ir.Builder, out *ir.Value) *ir.Value {
	x := scalar.Inputs(2)
	return meanOf(b, l, out, scalar.Sub(scalar.Softplus(x[0]), scalar.Mul(x[0], x[1])))
}

// MeanSquare is the mean of squared differences, of outputs and labels of one shape. It is torch.nn.MSELoss.
type MeanSquare struct{}

func (MeanSquare) labels(out *ir.TensorType) (*ir.TensorType, error) {
	return sameAs(out, "mean square")
}

func (l MeanSquare) add(b *ir.Builder, out *ir.Value) *ir.Value {
	x := scalar.Inputs(2)
	d := scalar.Sub(x[0], x[1])
	return meanOf(b, l, out, scalar.Mul(d, d))
}

func sameAs(out *ir.TensorType, name string) (*ir.TensorType, error) {
	if !out.Elem.IsFloat() {
		return nil, fmt.Errorf("%s: expected an output of floats, found %v", name, out)
	}
	return out, nil
}

// meanOf is the mean of an expression of an output and its label.
func meanOf(b *ir.Builder, l Loss, out *ir.Value, e scalar.Expr) *ir.Value {
	t, err := l.labels(out.Type.(*ir.TensorType))
	if err != nil {
		b.Fail(err)
		return nil
	}
	each := ops.MapOf(b, e, out, b.Input(Labels, t))
	return b.Op("", "ReduceMean", []*ir.Value{each}, ir.A("keepdims", 0))
}
