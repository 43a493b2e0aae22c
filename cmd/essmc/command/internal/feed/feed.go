// Package feed reads a model's inputs from files and arguments, NAME=FILE or NAME=NUMBER, and writes its outputs. It
// reshapes inputs to the model's shapes if there is only one way to do it. A .json file holds a value as an argument
// would have it, or an object with values by the names of inputs.
//
// It imports frontend/arrays, models and runtime. Errors name the file, and the input or output.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
)

// Inputs are the inputs of a run, with the files that they come from.
type Inputs struct {
	Data  map[string]tensor.Datum
	files map[string]string // by name
}

// Options say how files become inputs.
type Options struct {
	// Wide is set if the model takes float64 where it declares float32.
	Wide bool
	// Rate is the sampling rate of the model's input in Hz, as SamplingRate returns it. A .wav file with another one is
	// refused. 0: any rate.
	Rate float64
	// Image says how images are resized and scaled; nil: stretched to the size of the input, to 0..1.
	Image *Image
	// Given holds inputs that do not come from files, by name.
	Given map[string]tensor.Datum
	// MaxBytes bounds the size of each file and of all inputs together; 0: any.
	MaxBytes int64
	// Note takes one line about each input whose values are not those of its file; nil: nobody is told.
	Note func(line string)
}

// Reader is the type of Read and ReadSome.
type Reader func(ctx context.Context, specs []string, ports []runtime.Port, o Options) (*Inputs, error)

// Read reads the inputs in specs: "NAME=FILE", or "FILE" if only one input is required. In place of FILE there may be a
// number or a list of numbers.
func Read(ctx context.Context, specs []string, ports []runtime.Port, o Options) (*Inputs, error) {
	in, err := ReadSome(ctx, specs, ports, o)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		if _, ok := in.Data[p.Name]; !ok && !p.Optional {
			if form := mapForm(p); form != "" {
				return nil, fmt.Errorf("input %q is missing: --input '%s=%s', or FILE.json with this", p.Name, p.Name,
					form)
			}
			return nil, fmt.Errorf("input %q is missing: --input %s=FILE, %v", p.Name, p.Name, p.Type)
		}
	}
	return in, nil
}

// ReadSome is Read without the check for missing inputs.
func ReadSome(ctx context.Context, specs []string, ports []runtime.Port, o Options) (*Inputs, error) {
	in := &Inputs{Data: map[string]tensor.Datum{}, files: map[string]string{}}
	maps.Copy(in.Data, o.Given)
	for _, s := range specs {
		name, file, err := split(s, ports, "input")
		if err != nil {
			return nil, err
		}
		values := map[string]string{} // by name of the input
		if isJSON(file) && !isLiteral(file) {
			text, err := readJSON(file)
			if err != nil {
				return nil, err
			}
			if name == "" {
				values = named(text, ports)
			}
			if len(values) == 0 {
				if name, err = nameOr(name, ports, file); err != nil {
					return nil, err
				}
				values = map[string]string{name: text}
			}
		} else {
			if name, err = nameOr(name, ports, file); err != nil {
				return nil, err
			}
			if isLiteral(file) {
				values[name] = file
			}
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := in.value(name, values[name], file, ports, o.Wide); err != nil {
				return nil, err
			}
		}
		if len(values) > 0 {
			continue
		}
		port, err := in.free(name, file, ports)
		if err != nil {
			return nil, err
		}
		if err := o.fits(file, in); err != nil {
			return nil, err
		}
		t, notes, err := tensorOf(ctx, file, port, o)
		if err != nil {
			return nil, err
		}
		for _, n := range notes {
			if o.Note != nil {
				o.Note(fmt.Sprintf("%s: input %q: %s", file, name, n))
			}
		}
		in.Data[name], in.files[name] = t, file
		if err := o.fits("", in); err != nil {
			return nil, fmt.Errorf("%s: input %q: %w", file, name, err)
		}
	}
	return in, nil
}

// fits returns an error if a file is larger than MaxBytes allows, or the inputs so far are.
func (o Options) fits(file string, in *Inputs) error {
	if o.MaxBytes == 0 {
		return nil
	}
	if name, _, found := strings.Cut(file, ".npz:"); found {
		file = name + ".npz"
	}
	if st, err := files.Stat(file); err == nil && st.Size() > o.MaxBytes {
		return fmt.Errorf("%s: %w", file, &files.LimitError{Size: st.Size(), Limit: o.MaxBytes})
	}
	var sum int64
	for _, d := range in.Data {
		if t, ok := d.(*tensor.Tensor); ok && t.DType() != tensor.String {
			sum += int64(tensor.ByteSize(t.DType(), t.Len()))
		}
	}
	if sum > o.MaxBytes {
		return &files.LimitError{Size: sum, Limit: o.MaxBytes}
	}
	return nil
}

// tensorOf reads the file of a port, and adapts what is in it. The notes say what has changed.
func tensorOf(ctx context.Context, file string, port runtime.Port, o Options) (t *tensor.Tensor, notes []string,
	err error) {
	where := func(err error) error { return fmt.Errorf("%s: input %q: %w", file, port.Name, err) }
	if isImage(file) {
		image := o.Image
		if image == nil {
			image = &Image{}
		}
		if t, notes, err = readImage(ctx, file, port, image); err != nil {
			var path *fs.PathError
			if errors.As(err, &path) {
				return nil, nil, err
			}
			return nil, nil, where(err)
		}
	} else {
		a, err := read(file, port)
		if err != nil && !isArray(file) && filepath.Ext(file) != "" {
			return nil, nil, fmt.Errorf("%s: unknown kind of file: expected .npy, .npz, .csv, .wav, .json, or an "+
				"image (.png, .jpg)",
				file)
		}
		if err != nil {
			return nil, nil, perhapsValue(err, file, port)
		}
		if a.Rate > 0 && o.Rate > 0 && !sameRate(float64(a.Rate), o.Rate) {
			return nil, nil, where(fmt.Errorf("expected %.6g Hz, the sampling rate of the model's input, found %d Hz; "+
				"convert the recording, or compile the model directory with --resample", o.Rate, a.Rate))
		}
		if t, err = fit(a.Tensor, port, kindOf(file), o.Wide); err != nil {
			return nil, nil, where(err)
		}
	}
	t, note, err := converted(t, port, o.Wide)
	if err != nil {
		return nil, nil, where(err)
	}
	if note != "" {
		notes = append(notes, note)
	}
	return t, notes, nil
}

// isArray reports whether arrays.Read knows the file's extension, that of FILE.npz:KEY included.
func isArray(file string) bool {
	name, _, _ := strings.Cut(strings.ToLower(file), ".npz:")
	return slices.Contains([]string{".npy", ".npz", ".csv", ".wav"}, filepath.Ext(name)) ||
		name != strings.ToLower(file)
}

// perhapsValue adds to the error of a file without an extension that a value may have been meant.
func perhapsValue(err error, file string, port runtime.Port) error {
	if filepath.Ext(file) != "" {
		return err
	}
	values := "a number, or a list as in [1,2,3]"
	if t, ok := ir.AsTensor(port.Type); ok && t.Elem == tensor.String {
		values = `a text in quotes, or a list as in ["a","b"]`
	}
	if port.Keys != "" {
		values = `or a map as in {"key": 1}`
	}
	return fmt.Errorf("%s: input %q: expected a file (.npy, .npz, .csv, .wav, .png, .jpg, .json), %s (%v)", clip(file),
		port.Name, values, port.Type)
}

// nameOr returns the name, or that of the port that needs none.
func nameOr(name string, ports []runtime.Port, file string) (string, error) {
	if name != "" {
		return name, nil
	}
	return only(ports, file, "input")
}

// free returns the port of an input that has no file yet.
func (in *Inputs) free(name, file string, ports []runtime.Port) (runtime.Port, error) {
	if in.Data[name] != nil && in.files[name] == "" {
		return runtime.Port{}, fmt.Errorf("%s: input %q is filled by --text", file, name)
	}
	if former, twice := in.files[name]; twice {
		return runtime.Port{}, fmt.Errorf("%s: input %q already has a file, %s", file, name, former)
	}
	return ports[slices.IndexFunc(ports, func(p runtime.Port) bool { return p.Name == name })], nil
}

// value sets an input from text: an argument, or a part of a .json file.
func (in *Inputs) value(name, text, file string, ports []runtime.Port, wide bool) error {
	port, err := in.free(name, file, ports)
	if err != nil {
		return err
	}
	t, err := literal(text, port, wide)
	from := clip(name + "=" + file)
	if isJSON(file) {
		if from = file; err != nil {
			return fmt.Errorf("%s: input %q: %w", file, name, err)
		}
	}
	if err != nil {
		return fmt.Errorf("input %q: %w", name, err)
	}
	in.Data[name], in.files[name] = t, from
	return nil
}

// read reads a file for a port. The fields of a .csv file for texts are not numbers.
func read(file string, p runtime.Port) (*arrays.Array, error) {
	if t, ok := ir.AsTensor(p.Type); ok && t.Elem == tensor.String && kindOf(file) == csv {
		x, err := arrays.ReadTextCSV(file)
		return &arrays.Array{Tensor: x}, err
	}
	return arrays.Read(file)
}

// Files returns the files of inputs by the inputs' names, without the keys of .npz files. Values from the command line
// have none.
func (in *Inputs) Files() map[string]string {
	out := map[string]string{}
	for name, file := range in.files {
		if i := strings.LastIndex(strings.ToLower(file), ".npz:"); i >= 0 {
			if _, err := files.Stat(file); err != nil {
				file = file[:i+len(".npz")]
			}
		}
		out[name] = file
	}
	return out
}

// Locate adds to an error of a run the file of the input that it is about.
func (in *Inputs) Locate(err error) error {
	var bad *runtime.InputError
	if errors.As(err, &bad) && in.files[bad.Name] != "" {
		return fmt.Errorf("%s: %w", in.files[bad.Name], err)
	}
	var node *runtime.NodeError
	if errors.As(err, &node) {
		for name, file := range in.files { // an error names one input before the bracket
			if strings.HasPrefix(node.Err.Error(), name+"[") {
				return fmt.Errorf("%s: %w", file, node.Err)
			}
		}
	}
	return err
}

// split splits NAME=FILE. name is empty if there is none. The text before the first '=' is a name if the model has such
// a port; otherwise it is part of the file's name if there is such a file.
func split(spec string, ports []runtime.Port, what string) (name, file string, err error) {
	if spec == "" {
		return "", "", fmt.Errorf("%s: the file name is missing", what)
	}
	before, after, ok := strings.Cut(spec, "=")
	if !ok {
		return "", spec, nil
	}
	if slices.ContainsFunc(ports, func(p runtime.Port) bool { return p.Name == before }) {
		if after == "" {
			return "", "", fmt.Errorf("%s %q: the file name is missing", what, before)
		}
		return before, after, nil
	}
	if _, err := files.Stat(spec); err == nil || strings.ContainsRune(before, filepath.Separator) {
		return "", spec, nil
	}
	meant := ""
	if near := spell.Close(before, names(ports)); near != "" {
		meant = fmt.Sprintf("; did you mean %s?", near)
	}
	return "", "", fmt.Errorf("%s %q: the model has no such %s; it has %s%s", what, before, what,
		strings.Join(names(ports), ", "), meant)
}

func names(ports []runtime.Port) []string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = p.Name
	}
	return out
}

// only returns the port that needs no name: the only required one, or the only one at all. The final state of a causal
// model does not count.
func only(ports []runtime.Port, file, what string) (string, error) {
	var required []runtime.Port
	for _, p := range ports {
		if !p.Optional && p.Name != models.StateOut {
			required = append(required, p)
		}
	}
	if len(ports) == 1 {
		required = ports
	}
	if len(required) != 1 {
		return "", fmt.Errorf("%s: the model has several %ss (%s): write NAME=FILE", file, what,
			strings.Join(names(ports), ", "))
	}
	return required[0].Name, nil
}

// kind is a kind of file whose arrays need to be adapted.
type kind int

const (
	plain kind = iota
	csv        // rows and columns of float64
	wav        // samples and channels
)

func kindOf(file string) kind {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv":
		return csv
	case ".wav":
		return wav
	}
	return plain
}

// fit adapts t to the rank and element type of the port if there is one way to do that. Otherwise it returns t, and the
// runtime returns an error.
func fit(t *tensor.Tensor, p runtime.Port, k kind, wide bool) (*tensor.Tensor, error) {
	want, ok := p.Type.(*ir.TensorType)
	if !ok || want.NoRank {
		return t, nil
	}
	if k == wav {
		return fitWav(t, want)
	}
	if k == csv && t.DType() != tensor.String {
		var err error
		if t, err = fitText(t, want, wide); err != nil {
			return nil, err
		}
	}
	if shape := fitShape(t.Shape(), want.Shape, k); shape != nil {
		return t.Reshape(shape...)
	}
	return t, nil
}

func fitWav(t *tensor.Tensor, want *ir.TensorType) (*tensor.Tensor, error) {
	if len(want.Shape) == 2 && want.Elem.IsFloat() && t.Dim(1) == 1 { // a waveform without a dimension of features
		return t.Reshape(1, t.Dim(0))
	}
	if len(want.Shape) != 3 || !want.Elem.IsFloat() {
		return nil, fmt.Errorf("a .wav file is for an input of one feature, found %v", want)
	}
	if f, ok := want.Shape[2].Known(); !ok || f != 1 {
		return nil, fmt.Errorf("a .wav file is for an input of one feature, found %v features", want.Shape[2])
	}
	if t.Dim(1) != 1 {
		return nil, fmt.Errorf("expected one channel, found %d", t.Dim(1))
	}
	return t.Reshape(1, t.Dim(0), 1)
}

// fitText converts numbers from text to the element type of the model.
func fitText(t *tensor.Tensor, want *ir.TensorType, wide bool) (*tensor.Tensor, error) {
	if !want.Elem.IsInt() {
		if wide && want.Elem == tensor.Float32 {
			return t, nil
		}
		return t.Convert(want.Elem, false)
	}
	for i, v := range tensor.Data[float64](t) {
		if v != float64(int64(v)) {
			return nil, fmt.Errorf("expected integers (%v), found %v in row %d, column %d", want.Elem, v, i/t.Dim(1)+1,
				i%t.Dim(1)+1)
		}
	}
	return t.Convert(want.Elem, false)
}

// fitShape returns the shape that adapts an array with too few dimensions, if there is one way only. It returns nil if
// there is none or none is needed.
func fitShape(have []int, want ir.Shape, k kind) []int {
	known := func(i int) (int, bool) {
		n, ok := want[i].Known()
		return int(n), ok
	}
	switch {
	case len(have) == 2 && len(want) == 1 && k == csv && (have[0] == 1 || have[1] == 1):
		return []int{have[0] * have[1]} // a row or a column of lengths
	case len(want) == 0 && k == csv && have[0]*have[1] == 1:
		return []int{}
	case len(have) == 1 && len(want) == 2:
		if n, ok := known(1); !ok || n == have[0] { // one sequence of tokens, one vector of features
			return []int{1, have[0]}
		}
	case len(have) == 2 && len(want) == 3:
		f, ok := known(2)
		switch {
		case !ok:
			return nil
		case k == csv || f != 1:
			if have[1] == f { // one sequence: steps and features
				return []int{1, have[0], f}
			}
		case have[1] != 1: // n×1 may be n sequences or n steps
			return []int{have[0], have[1], 1}
		}
	case len(have) == 1 && len(want) == 3:
		if f, ok := known(2); ok && f == 1 {
			return []int{1, have[0], 1}
		}
	}
	return nil
}
