package command

import (
	"strconv"
	"strings"
	"testing"
)

// TestSamplingRate checks that a recording at another sampling rate than the model's is resampled for, or refused.
func TestSamplingRate(t *testing.T) {
	fixtures(t)
	run := func(args ...string) (answer, warning string) {
		t.Helper()
		code, stdout, stderr := essmc(append([]string{"run"}, args...)...)
		if code != 0 {
			t.Fatalf("%q: %s", args, stderr)
		}
		return stdout, stderr
	}
	writeWav(t, "16k.wav", 1, 400)
	rates := map[string]int{"8k": 8000, "11k": 11025, "44k": 44100, "1k": 1000, "192k": 192000}
	for name, rate := range rates {
		writeWavAt(t, name+".wav", 1, 400, rate)
	}
	before, _ := run("voice", "-i", "8k.wav")
	setConfig(t, "voice", "sampling_rate", 16000)
	same, warning := run("voice", "-i", "16k.wav")
	if same != before || warning != "" { // the files hold the same samples
		t.Errorf("at the model's own rate: %s%s", warning, same)
	}
	for file, r := range map[string]string{"8k.wav": "2", "11k.wav": "1.45125", "44k.wav": "0.362812"} {
		adapted, warning := run("voice", "-i", file)
		if adapted == before || !strings.Contains(warning, file) || !strings.Contains(warning, "--resample "+r) ||
			!strings.Contains(warning, "16000 Hz") {
			t.Errorf("%s: %s%s", file, warning, adapted)
		}
		exact := strconv.FormatFloat(16000/float64(rates[strings.TrimSuffix(file, ".wav")]), 'g', -1, 64) // r is rounded
		asked, quiet := run("voice", "-i", file, "--resample", exact)
		if asked != adapted || quiet != "" {
			t.Errorf("%s: found %s%s, expected %s", file, quiet, asked, adapted)
		}
	}
	refused(t, 1, []string{"run", "voice", "-i", "1k.wav"}, "1k.wav", `"input"`, "16000 Hz", "1000 Hz")
	refused(t, 1, []string{"run", "voice", "-i", "192k.wav"}, "16000 Hz", "192000 Hz")
	refused(t, 1, []string{"run", "voice", "-i", "16k.wav", "--resample", "2"}, "8000 Hz", "found 16000 Hz")

	must(t, "compile", "voice", "-o", "voice16.essm")
	must(t, "compile", "voice", "-o", "voice8.essm", "--resample", "2")
	must(t, "export", "voice8.essm", "-o", "voice8.onnx")
	if out := must(t, "inspect", "voice8.essm"); !strings.Contains(out, "sampled at 8000 Hz") {
		t.Error(out)
	}
	must(t, "run", "voice16.essm", "-i", "16k.wav")
	must(t, "run", "voice8.onnx", "-i", "8k.wav")
	must(t, "run", "voice8.essm", "-i", "input=8k.wav", "-o", "y.npy")
	must(t, "verify", "voice", "-i", "8k.wav", "-e", "y.npy")
	refused(t, 1, []string{"run", "voice16.essm", "-i", "8k.wav"}, "16000 Hz", "8000 Hz", "--resample")
	refused(t, 1, []string{"run", "voice8.onnx", "-i", "16k.wav"}, "8000 Hz", "16000 Hz")
	refused(t, 1, []string{"verify", "voice16.essm", "-i", "8k.wav", "-e", "y.npy"}, "16000 Hz", "8000 Hz")
	refused(t, 1, []string{"compare", "voice16.essm", "voice8.essm", "-i", "8k.wav"}, "16000 Hz", "8000 Hz")

	// A kernel with a length in lags is valid for one rate only.
	must(t, "init", "sc10", "-o", "lags", "--set", "layer.max_kernel_length=16", "--set", "sampling_rate=16000",
		"--set", "n_layers=1")
	must(t, "run", "lags", "-i", "16k.wav")
	refused(t, 1, []string{"run", "lags", "-i", "8k.wav"}, "16000 Hz", "8000 Hz")
}
