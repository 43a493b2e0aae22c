package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/train/schedule"
)

const example = `name: example
model: {preset: smnist, set: {d_model: 64}, dropout: 0.1}
dataset: {_name_: mnist, options: {length: 784}}
loader: {batch_size: 50}
optimizer: {_name_: adamw, lr: 0.008, weight_decay: 0.05, betas: [0.9, 0.99]}
groups:
- {name: ssm, params: ["*.Lambda", "*.log_dt"], lr: 0.002, weight_decay: 0}
scheduler: {_name_: plateau, factor: 0.2, patience: 10}
trainer: {max_epochs: 150}
`

func TestParse(t *testing.T) {
	r, err := Parse([]byte(example), "r.yaml", "optimizer.lr=0.004", "model.set.layer.d_state=32", "groups.ssm.lr=1e-3",
		"train.keep.best=3", "optimizer.betas=[0.8, 0.9]", "model.frozen=['encoder.*']", "model.tie_dropout=true")
	if err != nil {
		t.Fatal(err)
	}
	if r.Optimizer.LR != 0.004 || r.Model.Set["layer.d_state"] != "32" || r.Model.Set["d_model"] != "64" || *r.Groups[0].LR != 1e-3 ||
		*r.Groups[0].WeightDecay != 0 || r.Train.Keep != (Keep{3, 1}) || r.Optimizer.Betas != [2]float64{0.8, 0.9} ||
		r.Optimizer.Eps != 1e-8 || len(r.Model.Frozen) != 1 || !r.Model.Tied {
		t.Errorf("recipe %s", r.JSON())
	}
	s, err := r.Scheduler.Schedule(true)
	if p, ok := s.(*schedule.Plateau); err != nil || !ok || p.Factor != 0.2 || p.Patience != 10 || !p.Max {
		t.Errorf("schedule %+v, %v", s, err)
	}
	again, err := Parse([]byte(example), "r.yaml")
	if err != nil {
		t.Fatal(err)
	}
	diff, err := Differences(again.JSON(), r.JSON())
	if want := "groups: "; err != nil || len(diff) != 7 || !strings.HasPrefix(diff[0], want) {
		t.Errorf("expected 7 differences, the first %q, found %q, %v", want, diff, err)
	}
	if diff, _ := Differences(r.JSON(), r.JSON()); len(diff) > 0 {
		t.Errorf("equal recipes differ: %q", diff)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, change, want string }{
		{example + "traner: {max_epochs: 1}\n", "", "r.yaml: line 10: unknown key traner; did you mean trainer?"},
		{strings.Replace(example, "lr: 0.008", "learning_rate: 1", 1), "", "unknown key learning_rate"},
		{example, "optimizer.lrr=1", "optimizer.lrr: unknown key; did you mean optimizer.lr?"},
		{example, "optimizer.lr=fast", `optimizer.lr: expected a number, found "fast"`},
		{example, "optimizer=1", "expected the key of a value"},
		{example, "optimizer.lr", "expected KEY=VALUE"},
		{example, "groups.other.lr=1", "no group other"},
		{example, "optimizer._name_=adam", `expected one of adamw, lamb, sgd, found "adam"`},
		{example, "optimizer.betas=[1, 0.9]", "betas: expected numbers from 0 to below 1"},
		{example, "scheduler._name_=cosine", "cosine: expected 1 step or more"},
		{example, "loader.parts=3", "expected a divisor of the batch size 50, found 3"},
		{example, "trainer.max_epochs=0", "trainer.max_epochs: expected a number from 1"},
		{example, "train.seed=-1", "train.seed: expected an integer"},
		{example, "model.from=dir", "not both"},
		{"name: x\n  bad", "", "r.yaml:"},
		{strings.Repeat("#", maxSize+1), "", "at most 65536 bytes"},
	} {
		var changes []string
		if c.change != "" {
			changes = []string{c.change}
		}
		if _, err := Parse([]byte(c.text), "r.yaml", changes...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected %q, found %v", c.change, c.want, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// TestSet sets each key to a value of its type.
func TestSet(t *testing.T) {
	for _, key := range Keys() {
		r, ok := Default(), false
		for _, value := range []string{"1", "[1, 2]", "[a]", "true", "[{name: a}]"} {
			ok = ok || r.Set(key, value) == nil
		}
		if r.Set(key+".item", "1") == nil {
			continue // a map
		}
		if !ok {
			t.Errorf("%s takes no value", key)
		}
	}
}
