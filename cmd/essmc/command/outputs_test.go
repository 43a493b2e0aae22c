package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestOutputs checks --outputs: of run, bench and explain, for a directory and for a plan, on both devices.
func TestOutputs(t *testing.T) {
	fixtures(t)
	for _, model := range []string{"waves", "waves.essm"} {
		for _, device := range []string{"cpu", "ref"} {
			run := []string{"run", model, "--input", "waves.npy", "--kernel", "scan", "--device", device}
			both := must(t, run...)
			one := must(t, append(run, "--outputs", "output")...)
			last := must(t, append(run, "--outputs=state_out")...)
			if !strings.Contains(both, "state_out") || strings.Contains(one, "state_out") || !strings.Contains(both, one) ||
				!strings.Contains(both, last) || !strings.Contains(last, "state_out") {
				t.Errorf("%s on %s: found %q, and of one output %q and %q", model, device, both, one, last)
			}
			if same := must(t, append(run, "--outputs", "state_out,output")...); same != both {
				t.Errorf("%s on %s: found %q and %q", model, device, both, same)
			}
			must(t, append(run, "--output", "output=a.npy", "--output", "state_out=s.npy")...)
			must(t, append(run, "--outputs", "state_out", "--output", "b.npy")...)
			if d := largest(t, read(t, "b.npy"), read(t, "s.npy")); d != 0 {
				t.Errorf("%s on %s: the state alone is %g off", model, device, d)
			}
			must(t, append(run, "--outputs", "output", "--output", "b.npy", "--stream", "2")...)
			if d := largest(t, read(t, "b.npy"), read(t, "a.npy")); d > 1e-5 {
				t.Errorf("%s on %s: a stream of one output is %g off", model, device, d)
			}
			refused(t, 2, append(run, "--outputs", "outptu"), "--outputs", `"outptu"`, "output, state_out", `did you mean "output"?`)
			refused(t, 2, append(run, "--outputs", "output,output"), `names "output" twice`)
			refused(t, 1, append(run, "--outputs", "state_out", "--output", "output=c.npy"), `output "output"`, "it has state_out")
		}
		for ask, want := range map[string][]string{"": {"output"}, "state_out": {"state_out"},
			"output,state_out": {"output", "state_out"}} {
			bench := []string{"bench", model, "--shape", "2x50", "--repeat", "1", "--json"}
			if ask != "" {
				bench = append(bench, "--outputs", ask)
			}
			var b benchmark
			if err := json.Unmarshal([]byte(must(t, bench...)), &b); err != nil || !slices.Equal(b.Outputs, want) {
				t.Errorf("%s, --outputs %q: bench computes %q, %v", model, ask, b.Outputs, err)
			}
		}
		if text := must(t, "bench", model, "--shape", "2x50", "--repeat", "1"); !strings.Contains(text, "outputs  output, without state_out\n") {
			t.Errorf("%s: bench does not say what it computes: %s", model, text)
		}
		if text := must(t, "explain", model, "--lowered", "--outputs", "output"); strings.Contains(text, "state_out") ||
			!strings.Contains(must(t, "explain", model, "--lowered"), "state_out") {
			t.Errorf("%s: explain shows the state: %s", model, text)
		}
		refused(t, 2, []string{"explain", model, "--outputs", "x"}, "--outputs", "output, state_out")
		refused(t, 2, []string{"bench", model, "--shape", "2x50", "--outputs", "x"}, "--outputs", "output, state_out")
	}
	if text := must(t, "bench", "tokens", "--shape", "2x50", "--repeat", "1"); strings.Contains(text, "outputs") {
		t.Errorf("bench of a model without a state: %s", text)
	}
}
