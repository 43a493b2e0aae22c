// Package recipe reads recipes of training: YAML files that say which model is trained, on which data and how.
//
// No command reads recipes yet, and package train does not have everything that they can ask for: parts of a batch,
// dropout in the families, early stopping.
//
// It imports internal/files, internal/spell, train/optim, train/schedule and goccy/go-yaml. A recipe that Read returns
// is checked: every key is known, every value is in its range. Equal recipes have equal JSON (Recipe.JSON), by which a
// run knows that it goes on with the same one.
package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/train/optim"
	"github.com/essmc/essmc/train/schedule"
)

// maxSize bounds a recipe, in bytes.
const maxSize = 64 << 10

// Recipe is a recipe. Keys are named as in the configurations of the paper's authors.
type Recipe struct {
	Name      string    `yaml:"name" json:"name"`
	Doc       string    `yaml:"doc" json:"doc,omitempty"` // a sentence for lists
	Model     Model     `yaml:"model" json:"model"`
	Dataset   Dataset   `yaml:"dataset" json:"dataset"`
	Loader    Loader    `yaml:"loader" json:"loader"`
	Task      Task      `yaml:"task" json:"task"`
	Optimizer Optimizer `yaml:"optimizer" json:"optimizer"`
	Groups    []Group   `yaml:"groups" json:"groups,omitempty"`
	Scheduler Scheduler `yaml:"scheduler" json:"scheduler"`
	Trainer   Trainer   `yaml:"trainer" json:"trainer"`
	Train     Train     `yaml:"train" json:"train"`
}

// Model is the model that is trained: a preset, with settings changed, or a checkpoint to go on from.
type Model struct {
	Preset  string            `yaml:"preset" json:"preset,omitempty"`
	Set     map[string]string `yaml:"set" json:"set,omitempty"` // as essmc init --set
	From    string            `yaml:"from" json:"from,omitempty"`
	Dropout float64           `yaml:"dropout" json:"dropout"`
	Tied    bool              `yaml:"tie_dropout" json:"tie_dropout"` // one mask for all steps of a sequence
	Frozen  []string          `yaml:"frozen" json:"frozen,omitempty"` // patterns of parameters that do not change
}

// Dataset names the data. Options are those of the data set.
type Dataset struct {
	Name    string            `yaml:"_name_" json:"_name_"`
	Dir     string            `yaml:"data_dir" json:"data_dir,omitempty"`
	Options map[string]string `yaml:"options" json:"options,omitempty"`
}

// Loader says how samples become batches.
type Loader struct {
	BatchSize int `yaml:"batch_size" json:"batch_size"`
	// Parts is the number of parts of a batch: gradients are summed over them in a fixed order. Statistics are those of
	// a part.
	Parts int `yaml:"parts" json:"parts"`
	// Bucket is the number of batches whose samples are sorted by length; 0: none are.
	Bucket int `yaml:"bucket" json:"bucket,omitempty"`
}

// Task is what is minimised and what is reported.
type Task struct {
	Loss           string  `yaml:"loss" json:"loss"` // cross_entropy, binary_cross_entropy, mse
	LabelSmoothing float64 `yaml:"label_smoothing" json:"label_smoothing,omitempty"`
}

// Optimizer is the optimizer of all parameters that no group has.
type Optimizer struct {
	Name        string     `yaml:"_name_" json:"_name_"` // adamw, sgd, lamb
	LR          float64    `yaml:"lr" json:"lr"`
	WeightDecay float64    `yaml:"weight_decay" json:"weight_decay"`
	Betas       [2]float64 `yaml:"betas" json:"betas"`
	Eps         float64    `yaml:"eps" json:"eps"`
	Momentum    float64    `yaml:"momentum" json:"momentum,omitempty"`
	Nesterov    bool       `yaml:"nesterov" json:"nesterov,omitempty"`
}

// Group is parameters with a rate of their own.
type Group struct {
	Name        string   `yaml:"name" json:"name"`
	Params      []string `yaml:"params" json:"params"` // patterns of names
	LR          *float64 `yaml:"lr" json:"lr,omitempty"`
	WeightDecay *float64 `yaml:"weight_decay" json:"weight_decay,omitempty"`
}

// Scheduler changes the rates during training.
type Scheduler struct {
	Name        string  `yaml:"_name_" json:"_name_"` // constant, step, cosine, plateau
	WarmupSteps int64   `yaml:"warmup_steps" json:"warmup_steps,omitempty"`
	TotalSteps  int64   `yaml:"total_steps" json:"total_steps,omitempty"` // cosine
	MinLR       float64 `yaml:"min_lr" json:"min_lr,omitempty"`
	Factor      float64 `yaml:"factor" json:"factor,omitempty"`       // plateau
	Patience    int     `yaml:"patience" json:"patience,omitempty"`   // plateau
	Threshold   float64 `yaml:"threshold" json:"threshold,omitempty"` // plateau
	StepSize    int64   `yaml:"step_size" json:"step_size,omitempty"` // step
	Gamma       float64 `yaml:"gamma" json:"gamma,omitempty"`         // step
}

// Trainer says how long training goes on.
type Trainer struct {
	MaxEpochs    int     `yaml:"max_epochs" json:"max_epochs"`
	MaxSteps     int64   `yaml:"max_steps" json:"max_steps,omitempty"` // 0: no bound but the epochs
	GradientClip float64 `yaml:"gradient_clip_val" json:"gradient_clip_val,omitempty"`
	EarlyStop    int     `yaml:"early_stopping" json:"early_stopping,omitempty"` // evaluations without a better metric
}

// Train is what belongs to a run.
type Train struct {
	Seed    uint64  `yaml:"seed" json:"seed"`
	Monitor string  `yaml:"monitor" json:"monitor"`       // accuracy (larger is better), loss
	EMA     float64 `yaml:"ema" json:"ema,omitempty"`     // decay of the moving average; 0: none
	Keep    Keep    `yaml:"keep" json:"keep"`             // checkpoints
	Every   int64   `yaml:"every" json:"every,omitempty"` // steps between checkpoints within an epoch; 0: none
}

// Keep says which checkpoints stay.
type Keep struct {
	Best int `yaml:"best" json:"best"`
	Last int `yaml:"last" json:"last"`
}

// Default returns the values of keys that a recipe does not have.
func Default() *Recipe {
	return &Recipe{
		Loader:    Loader{BatchSize: 32, Parts: 1},
		Task:      Task{Loss: "cross_entropy"},
		Optimizer: Optimizer{Name: "adamw", LR: 1e-3, WeightDecay: 0.01, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, Momentum: 0.9},
		Scheduler: Scheduler{Name: "constant", Factor: 0.1, Patience: 10, Threshold: 1e-4, Gamma: 0.1},
		Trainer:   Trainer{MaxEpochs: 10},
		Train:     Train{Seed: 1, Monitor: "accuracy", Keep: Keep{Best: 1, Last: 1}},
	}
}

// Read reads a recipe file, and changes keys of it: "optimizer.lr=0.002".
func Read(path string, changes ...string) (*Recipe, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	return Parse(text, path, changes...)
}

// Parse is Read for the content of a file. name is its name in messages.
func Parse(text []byte, name string, changes ...string) (*Recipe, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("%s: expected at most %d bytes", name, maxSize)
	}
	r := Default()
	if err := decode(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, c := range changes {
		key, value, ok := strings.Cut(c, "=")
		if !ok {
			return nil, fmt.Errorf("%s: expected KEY=VALUE, such as optimizer.lr=0.002", c)
		}
		if err := r.Set(key, value); err != nil {
			return nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// decode reads YAML into a value. An unknown key is an error that names the nearest known one.
func decode(text []byte, into any) error {
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField(), number, optionalNumber).Decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) {
		key := strings.TrimSuffix(strings.TrimPrefix(unknown.Message, `unknown field "`), `"`)
		line := unknown.Token.Position.Line
		if near := spell.Nearest(key, allKeys()); near != "" {
			return fmt.Errorf("line %d: unknown key %s; did you mean %s?", line, key, near)
		}
		return fmt.Errorf("line %d: unknown key %s", line, key)
	}
	return errors.New(yaml.FormatError(err, false, false))
}

// These read 1e-3, too, which is text to YAML.
var (
	number = yaml.CustomUnmarshaler(func(f *float64, text []byte) (err error) {
		*f, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return err
	})
	optionalNumber = yaml.CustomUnmarshaler(func(f **float64, text []byte) error {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		*f = &v
		return err
	})
)

// allKeys lists the last parts of all keys.
func allKeys() (keys []string) {
	for _, k := range Keys() {
		keys = append(keys, strings.Split(k, ".")...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Keys lists the keys of Set, in the order of the file.
func Keys() []string { return keysOf(reflect.TypeFor[Recipe](), "") }

func keysOf(t reflect.Type, before string) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := before + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, key+".")...)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}

// Set changes a key, written with dots, to a value as in the file. Items of a map are keys, too: model.set.d_model,
// dataset.options.length; and so are the groups, by their names: groups.ssm.lr.
func (r *Recipe) Set(key, value string) error {
	if rest, ok := strings.CutPrefix(key, "groups."); ok {
		name, last, _ := strings.Cut(rest, ".")
		i := slices.IndexFunc(r.Groups, func(g Group) bool { return g.Name == name })
		if i < 0 {
			return fmt.Errorf("%s: the recipe has no group %s", key, name)
		}
		return set(reflect.ValueOf(&r.Groups[i]).Elem(), last, key, value)
	}
	return set(reflect.ValueOf(r).Elem(), key, key, value)
}

// set sets the value at a path in a structure. whole is the key in messages.
func set(v reflect.Value, path, whole, value string) error {
	name, rest, more := strings.Cut(path, ".")
	i := slices.IndexFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool { return f.Tag.Get("yaml") == name })
	if i < 0 {
		if near := spell.Nearest(whole, Keys()); near != "" {
			return fmt.Errorf("%s: unknown key; did you mean %s?", whole, near)
		}
		return fmt.Errorf("%s: unknown key", whole)
	}
	f := v.Field(i)
	switch {
	case more && f.Kind() == reflect.Struct:
		return set(f, rest, whole, value)
	case more && f.Kind() == reflect.Map:
		if f.IsNil() {
			f.Set(reflect.MakeMap(f.Type()))
		}
		f.SetMapIndex(reflect.ValueOf(rest), reflect.ValueOf(value))
		return nil
	case more || f.Kind() == reflect.Struct:
		return fmt.Errorf("%s: expected the key of a value", whole)
	case f.Kind() == reflect.String:
		f.SetString(value)
		return nil
	}
	if err := yaml.UnmarshalWithOptions([]byte(value), f.Addr().Interface(), number, optionalNumber); err != nil {
		return fmt.Errorf("%s: expected %s, found %q", whole, described(f.Type()), value)
	}
	return nil
}

// described names the values of a type.
func described(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return described(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an integer"
}

// JSON returns the recipe in canonical form.
func (r *Recipe) JSON() json.RawMessage {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // all numbers are finite: check has seen them
	}
	return text
}

// Differences lists the keys in which two recipes in canonical form differ, with both values.
func Differences(a, b json.RawMessage) ([]string, error) {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		return nil, err
	}
	return differences(x, y, ""), nil
}

func differences(x, y any, at string) (all []string) {
	p, ok := x.(map[string]any)
	q, ok2 := y.(map[string]any)
	if !ok || !ok2 {
		if !reflect.DeepEqual(x, y) {
			all = append(all, fmt.Sprintf("%s: %s, now %s", at, short(x), short(y)))
		}
		return all
	}
	keys := map[string]bool{}
	for k := range p {
		keys[k] = true
	}
	for k := range q {
		keys[k] = true
	}
	var sorted []string
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	for _, k := range sorted {
		name := k
		if at != "" {
			name = at + "." + k
		}
		all = append(all, differences(p[k], q[k], name)...)
	}
	return all
}

func short(v any) string {
	if v == nil {
		return "none"
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// Rule returns the optimizer with a weight decay of its own.
func (o Optimizer) Rule(decay float64) (optim.Rule, error) {
	switch o.Name {
	case "adamw":
		return optim.AdamW{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: decay}, nil
	case "lamb":
		return optim.Lamb{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: decay}, nil
	case "sgd":
		return optim.SGD{Momentum: o.Momentum, Nesterov: o.Nesterov, WeightDecay: decay}, nil
	}
	return nil, fmt.Errorf("optimizer._name_: expected one of adamw, lamb, sgd, found %q", o.Name)
}

// Schedule returns the schedule of the learning rates.
func (s Scheduler) Schedule(larger bool) (schedule.Schedule, error) {
	var then schedule.Schedule
	switch s.Name {
	case "constant":
		then = schedule.Constant{}
	case "step":
		then = schedule.Step{Size: s.StepSize, Gamma: s.Gamma}
	case "cosine":
		then = schedule.Cosine{Steps: s.TotalSteps - s.WarmupSteps, Min: s.MinLR}
	case "plateau":
		then = &schedule.Plateau{Max: larger, Factor: s.Factor, Patience: s.Patience, Threshold: s.Threshold, Min: s.MinLR, Eps: 1e-8}
	default:
		return nil, fmt.Errorf("scheduler._name_: expected one of constant, step, cosine, plateau, found %q", s.Name)
	}
	if s.WarmupSteps > 0 {
		then = schedule.Warmup{Steps: s.WarmupSteps, Start: 1 / float64(s.WarmupSteps), Then: then}
	}
	if err := schedule.Check(then); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return then, nil
}

// check checks every value.
func (r *Recipe) check() error {
	within := func(key string, v, lo, hi float64) error {
		if v >= lo && v <= hi {
			return nil
		}
		return fmt.Errorf("%s: expected a number from %s to %s, found %s", key, text(lo), text(hi), text(v))
	}
	oneOf := func(key, v string, all ...string) error {
		if slices.Contains(all, v) {
			return nil
		}
		return fmt.Errorf("%s: expected one of %s, found %q", key, strings.Join(all, ", "), v)
	}
	if (r.Model.Preset == "") == (r.Model.From == "") {
		return errors.New("model: expected a preset or the directory of a model (from), and not both")
	}
	if r.Dataset.Name == "" {
		return errors.New("dataset._name_: is missing")
	}
	const most = 1 << 30
	err := errors.Join(
		within("model.dropout", r.Model.Dropout, 0, 0.99),
		within("loader.batch_size", float64(r.Loader.BatchSize), 1, most),
		within("loader.parts", float64(r.Loader.Parts), 1, float64(r.Loader.BatchSize)),
		within("loader.bucket", float64(r.Loader.Bucket), 0, most),
		oneOf("task.loss", r.Task.Loss, "cross_entropy", "binary_cross_entropy", "mse"),
		within("task.label_smoothing", r.Task.LabelSmoothing, 0, 0.99),
		within("optimizer.lr", r.Optimizer.LR, 0, 1e6),
		within("trainer.max_epochs", float64(r.Trainer.MaxEpochs), 1, most),
		within("trainer.max_steps", float64(r.Trainer.MaxSteps), 0, 1e15),
		within("trainer.gradient_clip_val", r.Trainer.GradientClip, 0, 1e30),
		within("trainer.early_stopping", float64(r.Trainer.EarlyStop), 0, most),
		oneOf("train.monitor", r.Train.Monitor, "accuracy", "loss"),
		within("train.seed", float64(r.Train.Seed), 0, 1<<32-1),
		within("train.ema", r.Train.EMA, 0, 0.999999999),
		within("train.keep.best", float64(r.Train.Keep.Best), 0, most),
		within("train.keep.last", float64(r.Train.Keep.Last), 1, most),
		within("train.every", float64(r.Train.Every), 0, 1e15),
	)
	if r.Loader.BatchSize%max(1, r.Loader.Parts) != 0 {
		err = errors.Join(err, fmt.Errorf("loader.parts: expected a divisor of the batch size %d, found %d", r.Loader.BatchSize, r.Loader.Parts))
	}
	if _, wrong := r.Scheduler.Schedule(r.Train.Monitor == "accuracy"); wrong != nil {
		err = errors.Join(err, wrong)
	}
	if rule, wrong := r.Optimizer.Rule(r.Optimizer.WeightDecay); wrong != nil {
		err = errors.Join(err, wrong)
	} else if wrong := rule.Check(); wrong != nil {
		err = errors.Join(err, fmt.Errorf("optimizer: %w", wrong))
	}
	for i, g := range r.Groups {
		if g.Name == "" || len(g.Params) == 0 || slices.ContainsFunc(r.Groups[:i], func(o Group) bool { return o.Name == g.Name }) {
			err = errors.Join(err, fmt.Errorf("groups: expected a name of its own and patterns of parameters in group %d, found %q and %q", i+1, g.Name, g.Params))
		}
	}
	return err
}

func text(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
