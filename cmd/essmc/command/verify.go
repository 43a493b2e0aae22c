package command

import (
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

func newVerifyCommand() *cobra.Command {
	var f runFlags
	var inputs inputFlags
	var expect []string
	var other string
	var asJSON bool
	tol := positive{1e-5, "TOL"}
	cmd := &cobra.Command{
		Use:     "verify MODEL --input [NAME=]FILE … --expect [NAME=]FILE",
		Short:   "Compare a model's outputs with expected ones",
		GroupID: groupRun,
		Long: `Verify runs the model and compares its outputs with arrays in files. The error is the
largest difference between two elements, relative to the largest absolute value that
is expected. If it is above the tolerance, the exit code is 1.

--against ort compares an ONNX file with ONNX Runtime instead, which Python runs:
python3, or the one that the variable ESSMC_PYTHON names. The outputs are compared, and
then every value of the graph in its order, to name the first one that differs. Inputs
without --input are random.`,
		Example: `  essmc verify model.essm --input x.npy --expect y.npy
  essmc verify model.essm --input x.npy --expect y.npy --precision int8 --tol 0.05
  essmc verify model.essm --input x.npy --expect y.npy --device cuda
  essmc verify model.onnx --against ort
  essmc verify model --input x.npy --expect y64.npy --tol 1e-9 --device ref --precision float64`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgainst(cmd, other, expect); err != nil {
				return err
			}
			if other != "" {
				if err := f.check(cmd); err != nil {
					return err
				}
				return (&against{&f, &inputs, tol.value, asJSON}).run(cmd, args[0])
			}
			model, err := f.compiled(cmd, args[0], inputs.specs)
			if err != nil {
				return err
			}
			defer model.Close()
			files, err := feed.Expected(expect, model.Outputs())
			if err != nil {
				return err
			}
			want := make([]*tensor.Tensor, len(files))
			for i, o := range files {
				if err := f.checkFile(o.File); err != nil {
					return err
				}
				a, err := arrays.Read(o.File)
				if err != nil {
					return err
				}
				want[i] = a.Tensor
			}
			in, err := inputs.read(cmd, model, model.Inputs(), f.precision.value == "float64")
			if err != nil {
				return err
			}
			out, err := compute(cmd, model, in)
			if err != nil {
				return err
			}
			var beyond error
			report := verifyReport{Model: args[0], OK: true, Tolerance: tol.value, Outputs: []verified{}}
			for i, o := range files {
				d, err := compare(out[o.Name], want[i])
				if err != nil {
					return fmt.Errorf("%s: output %q: %w", o.File, o.Name, err)
				}
				verdict, ok := "ok", d.relative <= tol.value
				report.OK = report.OK && ok
				report.Outputs = append(report.Outputs, verified{o.Name, o.File, ok, d.report()})
				if !ok {
					verdict = "beyond the tolerance"
					if beyond == nil {
						beyond = fmt.Errorf("%s: output %q differs by %.3g, the tolerance is %v", o.File, o.Name,
							d.relative, &tol)
					}
				}
				if asJSON {
					continue
				}
				cmd.Printf("%s  %s: error %.3g of %.6g, at %s (expected %.9g, found %.9g), tolerance %v\n",
					o.Name, verdict, d.relative, d.scale, d.at, d.want, d.found, &tol)
			}
			if asJSON {
				if err := writeLine(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			}
			return beyond
		},
	}
	modelCompletion(cmd)
	inputs.register(cmd)
	cmd.Flags().StringArrayVarP(&expect, "expect", "e", nil, "compare an output: `[NAME=]FILE`; can be repeated")
	complete(cmd, "expect", filesOf("npy", "npz", "csv"))
	cmd.Flags().StringVar(&other, "against", "", "compare an ONNX file with another engine: `ort`, ONNX Runtime in "+
		"Python")
	complete(cmd, "against", cobra.FixedCompletions([]string{"ort"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().Var(&tol, "tol", "largest allowed error")
	jsonVar(cmd, &asJSON, "write the differences as one JSON object")
	f.register(cmd)
	f.registerExact(cmd)
	return cmd
}

// verifyReport is what verify --json writes.
type verifyReport struct {
	Model     string     `json:"model"`
	OK        bool       `json:"ok"`
	Tolerance float64    `json:"tolerance"`
	Outputs   []verified `json:"outputs"`
	First     *differs   `json:"first_difference,omitempty"` // with --against
}

type verified struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	OK   bool   `json:"ok"`
	differenceReport
}

// difference describes the difference of an output from the expected one.
type difference struct {
	relative    float64 // the largest difference, relative to scale
	scale       float64 // the largest absolute value of the expected output
	at          string  // index of the largest difference
	want, found float64 // the values there
}

// compare returns the largest difference. Two NaN, or two equal infinities, do not differ.
func compare(d tensor.Datum, want *tensor.Tensor) (difference, error) {
	got, ok := d.(*tensor.Tensor)
	if !ok {
		return difference{}, fmt.Errorf("is not a tensor")
	}
	if !slices.Equal(got.Shape(), want.Shape()) {
		return difference{}, fmt.Errorf("expected shape %s, found %s", tensor.ShapeString(want.Shape()),
			tensor.ShapeString(got.Shape()))
	}
	if got.DType() == tensor.String && want.DType() == tensor.String {
		for i, w := range want.Strings() {
			if s := got.Strings()[i]; s != w {
				return difference{}, fmt.Errorf("text %d of %s: expected %q, found %q", i, want, w, s)
			}
		}
		return difference{at: "[]"}, nil
	}
	x, err := got.Float64s()
	if err != nil {
		return difference{}, err
	}
	y, err := want.Float64s()
	if err != nil {
		return difference{}, err
	}
	var out difference
	worst, at := -1.0, 0
	for i := range y {
		if !math.IsNaN(y[i]) && !math.IsInf(y[i], 0) {
			out.scale = max(out.scale, math.Abs(y[i]))
		}
		e := math.Abs(x[i] - y[i])
		switch {
		case x[i] == y[i] || math.IsNaN(x[i]) && math.IsNaN(y[i]):
			e = 0
		case math.IsNaN(e):
			e = math.Inf(1)
		}
		if e > worst {
			worst, at = e, i
		}
	}
	if len(y) == 0 {
		out.at = "[]"
		return out, nil
	}
	out.want, out.found = y[at], x[at]
	out.relative = worst
	if out.scale > 0 {
		out.relative = worst / out.scale
	}
	index := make([]int, want.Rank())
	for i := len(index) - 1; i >= 0; i-- {
		index[i], at = at%want.Dim(i), at/want.Dim(i)
	}
	out.at = tensor.ShapeString(index)
	return out, nil
}
