package command

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/driver/libcuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// withDriver lets the commands of a test find a driver.
func withDriver(t *testing.T, open func() (driver.Driver, error)) {
	t.Helper()
	before := openDriver
	t.Cleanup(func() { openDriver = before })
	openDriver = open
}

// withEmulator lets the commands of a test find an emulated card, or several.
func withEmulator(t *testing.T, o emu.Options) {
	t.Helper()
	withDriver(t, func() (driver.Driver, error) {
		d := emu.New(o)
		return d, driver.Start(d)
	})
}

// onCard holds a line for each command that takes --device, without that flag: each looks for a driver when it runs.
var onCard = map[string]string{
	"run":      "run waves -i waves.npy",
	"stream":   "stream waves",
	"generate": "generate lm --prompt-ids 5,6",
	"verify":   "verify waves -i waves.npy --expect waves.npy",
	"compare":  "compare waves --shape 1x8",
	"bench":    "bench waves --shape 1x8",
	"explain":  "explain waves",
	"test":     "test nodes",
	"tune":     "", // refuses cards: TestBadCommandLines
}

// TestNoDriver checks that every command says in one line why there is no card.
func TestNoDriver(t *testing.T) {
	language(t, "424")
	lm, err := filepath.Abs("lm")
	if err != nil {
		t.Fatal(err)
	}
	fixtures(t)
	if err := os.CopyFS("lm", os.DirFS(lm)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("nodes/test_waves/test_data_set_0", 0o777); err != nil {
		t.Fatal(err)
	}
	must(t, "export", "waves", "-o", "nodes/test_waves/model.onnx")
	lines := map[string][]string{} // by flag
	for _, cmd := range newRootCommand().Commands() {
		for _, flag := range []string{"device", "device-a", "device-b"} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			line, ok := onCard[cmd.Name()]
			if !ok {
				t.Errorf("onCard lacks %s --%s", cmd.Name(), flag)
			}
			if line != "" {
				lines[flag] = append(lines[flag], line)
			}
		}
	}
	all := func(code int, device string, want string) {
		t.Helper()
		for flag, list := range lines {
			for _, line := range list {
				refused(t, code, append(strings.Fields(line), "--"+flag, device), want)
				if flag == "device" {
					refused(t, code, append(strings.Fields(line), "--"+flag, device, "--fallback", "cpu"), want)
				}
			}
		}
	}
	if _, err := libcuda.Open(); err == nil {
		t.Log("this machine has a driver")
	} else {
		all(1, "cuda:1", "--device cuda:1: "+oneLine(err.Error()))
	}
	for _, c := range []struct {
		o    emu.Options
		want string
	}{
		{emu.Options{Version: 11030}, "--device cuda: the driver is for CUDA 11.3: CUDA 11.4 or newer is needed"},
		{emu.Options{Attributes: map[driver.Attribute]int{driver.ComputeMajor: 7, driver.ComputeMinor: 5}},
			"has compute capability 7.5: 8.0 or newer is needed"},
		{emu.Options{Fail: func(call string, _ int) driver.Code {
			if call == "cuInit" {
				return driver.NoDevice
			}
			return driver.Success
		}}, "--device cuda: the driver finds no card: see whether nvidia-smi lists one"},
	} {
		withEmulator(t, c.o)
		all(1, "cuda", c.want)
	}
	withEmulator(t, emu.Options{Devices: 2})
	all(2, "cuda:2", "--device: the driver has 2 devices")
}

// TestDevices checks the list of devices.
func TestDevices(t *testing.T) {
	list := func() string { return must(t, "devices") }
	if _, err := libcuda.Open(); err != nil && !strings.Contains(list(), "cuda: "+err.Error()) {
		t.Errorf("the list lacks %q:\n%s", err, list())
	}
	withDriver(t, func() (driver.Driver, error) { return nil, errors.New("no\ndriver") })
	text := list()
	if !regexp.MustCompile(`(?m)^  cpu +\S+ \S+, \d+ threads? +\S+ \S+ +yes, kernels \w+$`).MatchString(text) ||
		!strings.HasSuffix(text, "cuda: no; driver\n") {
		t.Errorf("without a driver:\n%s", text)
	}
	withEmulator(t, emu.Options{Devices: 2, Memory: 16 << 30})
	text = list()
	for _, want := range []string{`(?m)^  cuda:0 .* \d+\.0 +16\.0 GiB +\S+ \S+ +yes$`, `(?m)^  cuda:1 .* yes$`,
		`cuda: the driver is for CUDA 12\.8\n$`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("with two cards, expected %s:\n%s", want, text)
		}
	}
	withEmulator(t, emu.Options{Attributes: map[driver.Attribute]int{driver.ComputeMajor: 7}})
	if text = list(); !regexp.MustCompile(`(?m)^  cuda:0 .* no: has compute capability 7\.\d: 8\.0 or`).MatchString(text) {
		t.Errorf("with an old card:\n%s", text)
	}
	withEmulator(t, emu.Options{Fail: func(call string, _ int) driver.Code {
		if call == "cuDevicePrimaryCtxRetain" {
			return driver.DeviceUnavailable
		}
		return driver.Success
	}})
	if text = list(); !strings.Contains(text, "no: cuDevicePrimaryCtxRetain: device is in use") {
		t.Errorf("with a card that is in use:\n%s", text)
	}
}

// TestDeviceCUDA runs commands on an emulated card. Operators without a kernel there fall back to the processor.
func TestDeviceCUDA(t *testing.T) {
	fixtures(t)
	withEmulator(t, emu.Options{Devices: 2})
	must(t, "run", "waves.essm", "-i", "waves.npy", "--outputs", "output", "-o", "y.npy")
	cuda := []string{"--device", "cuda:1", "--fallback", "cpu"}
	on := func(args ...string) string {
		t.Helper()
		return must(t, append(args, cuda...)...)
	}
	on("verify", "waves.essm", "-i", "waves.npy", "--expect", "y.npy", "--tol", "2e-5")
	on("run", "waves", "-i", "waves.npy", "--outputs", "output", "-o", "z.npy")
	on("run", "waves.essm", "-i", "waves.npy", "--outputs", "output", "-o", "s.npy", "--stream", "2")
	for _, file := range []string{"z.npy", "s.npy"} {
		got, want := tensor.Data[float32](read(t, file)), tensor.Data[float32](read(t, "y.npy"))
		if len(got) != len(want) {
			t.Fatalf("%s has %d numbers, expected %d", file, len(got), len(want))
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 2e-5 {
				t.Errorf("%s, number %d: %g, expected %g", file, i, got[i], want[i])
			}
		}
	}
	on("run", "tokens.essm", "-i", "input=tokens.npy", "-i", "lengths=lengths.npy")
	if text := must(t, "compare", "waves.essm", "--shape", "1x5", "--device-b", "cuda", "--fallback", "cpu", "--tol",
		"2e-5"); !strings.Contains(text, "output") {
		t.Errorf("compare: %s", text)
	}
	if text := on("bench", "waves.essm", "--shape", "1x4", "--repeat", "1", "--json"); !strings.Contains(text,
		`"device": "cuda:1"`) {
		t.Errorf("bench: %s", text)
	}
	if text := on("explain", "waves.essm"); !strings.Contains(text, "Forms on the card") || strings.Contains(text, "kernels") {
		t.Errorf("explain: %s", text)
	}
	on("explain", "waves.essm", "--lowered", "--shape", "1x4")

	// An operator on texts has no kernel on any card.
	if err := os.WriteFile("text.onnxtxt", []byte("<ir_version: 9, opset_import: [\"\": 20]>\n"+
		"g (string[2] x) => (string[2] y) {\n y = StringConcat (x, x)\n}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, []string{"bench", "text.onnxtxt", "--device", "cuda"}, "StringConcat")
}

// TestStateOnCard continues sequences on an emulated card.
func TestStateOnCard(t *testing.T) {
	withEmulator(t, emu.Options{})
	language(t, "424")
	line := []string{"generate", "lm", "--prompt-ids", "5,6,7", "--max-new-tokens", "4"}
	want := must(t, line...)
	if got := must(t, append(line, "--device", "cuda", "--fallback", "cpu")...); got != want {
		t.Errorf("the card continues with %q, the processor with %q", got, want)
	}
	fixtures(t)
	const steps = "0,1,2\n3,4,5\n6,7,8\n"
	both := func(args ...string) (cpu, card string) {
		t.Helper()
		for i, to := range []*string{&cpu, &card} {
			var out, errs strings.Builder
			if i == 1 {
				args = append(args, "--device", "cuda", "--fallback", "cpu", "--force")
			}
			if code := Main(append([]string{"stream", "waves.essm"}, args...), strings.NewReader(steps), &out, &errs); code != 0 {
				t.Fatalf("%q: %s", args, errs.String())
			}
			*to = out.String()
		}
		return cpu, card
	}
	for _, args := range [][]string{{"--snapshot", "state"}, {"--restore", "state"}} { // the card has written it last
		cpu, card := both(args...)
		a, b := strings.FieldsFunc(cpu, split), strings.FieldsFunc(card, split)
		if len(a) != 6 || len(b) != len(a) {
			t.Fatalf("%q: the card gives\n%s, the processor\n%s", args, card, cpu)
		}
		for i := range a {
			x, errX := strconv.ParseFloat(a[i], 64)
			y, errY := strconv.ParseFloat(b[i], 64)
			if errX != nil || errY != nil || math.Abs(x-y) > 2e-5 {
				t.Errorf("%q: the card gives\n%s, the processor\n%s", args, card, cpu)
				break
			}
		}
	}
}

func split(r rune) bool { return r == ',' || r == '\n' }
