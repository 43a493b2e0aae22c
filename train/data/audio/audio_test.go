package audio

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// peer is what torchaudio 0.13.1 computed in float64 (its tables for MFCC in float32), for one signal.
type peer struct {
	X        []float32 `json:"x"`
	Resample []struct {
		From, To int
		Y        []float64
	}
	MFCC []struct {
		Case struct {
			SampleRate int  `json:"sample_rate"`
			Count      int  `json:"n_mfcc"`
			Log        bool `json:"log_mels"`
			Mel        struct {
				FFT  int     `json:"n_fft"`
				Mels int     `json:"n_mels"`
				Hop  int     `json:"hop_length"`
				Win  int     `json:"win_length"`
				Low  float64 `json:"f_min"`
				High float64 `json:"f_max"`
			} `json:"melkwargs"`
		}
		Shape []int
		Y     []float64
	}
}

func readPeer(t *testing.T) *peer {
	b, err := os.ReadFile(filepath.Join("testdata", "torchaudio.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{}
	if err := json.Unmarshal(b, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func worst(got []float32, want []float64) (w float64) {
	for i, v := range want {
		w = max(w, math.Abs(float64(got[i])-v))
	}
	return w
}

func TestResampleAsTorchaudio(t *testing.T) {
	p := readPeer(t)
	for _, c := range p.Resample {
		r, err := NewResampler(c.From, c.To)
		if err != nil {
			t.Fatal(err)
		}
		y := r.Apply(p.X[:200], math.MaxInt)
		if len(y) != len(c.Y) {
			t.Errorf("%d to %d Hz: %d samples, expected %d", c.From, c.To, len(y), len(c.Y))
		} else if w := worst(y, c.Y); w > 1e-7 {
			t.Errorf("%d to %d Hz: differs by %g", c.From, c.To, w)
		}
		table := r.table
		if r.table = nil; !slices.Equal(r.Apply(p.X[:200], 50), y[:50]) {
			t.Errorf("%d to %d Hz: other samples without the table of %d numbers", c.From, c.To, len(table))
		}
	}
	if len(p.Resample) != 5 {
		t.Errorf("%d cases", len(p.Resample))
	}
	same, err := NewResampler(7, 7)
	if err != nil || !slices.Equal(same.Apply(p.X, 9), p.X[:9]) {
		t.Errorf("equal rates change the signal, %v", err)
	}
	if _, err := NewResampler(0, 1); err == nil || !strings.Contains(err.Error(), "expected 1 to 16777216 Hz, found 0 and 1") {
		t.Errorf("error %v", err)
	}
	if r, err := NewResampler(MaxRate-1, MaxRate); err != nil || r.table != nil {
		t.Errorf("%+v, %v: expected no table", r, err)
	}
}

func TestMFCCAsTorchaudio(t *testing.T) {
	p := readPeer(t)
	for _, c := range p.MFCC {
		o := c.Case
		m, err := NewMFCC(MFCCOptions{SampleRate: o.SampleRate, Count: o.Count, Log: o.Log, FFT: o.Mel.FFT, Mels: o.Mel.Mels, Hop: o.Mel.Hop,
			Window: o.Mel.Win, Low: o.Mel.Low, High: o.Mel.High})
		if err != nil {
			t.Fatal(err)
		}
		y, err := m.Apply(p.X)
		if err != nil || len(y) != len(c.Y) || m.Count != c.Shape[0] || m.Frames(len(p.X)) != c.Shape[1] {
			t.Fatalf("%+v: %d coefficients, %v", o, len(y), err)
		}
		turned := make([]float64, len(c.Y)) // torchaudio has (coefficients, frames)
		for q := range c.Shape[0] {
			for f := range c.Shape[1] {
				turned[f*c.Shape[0]+q] = c.Y[q*c.Shape[1]+f]
			}
		}
		if w := worst(y, turned); w > 1e-4 {
			t.Errorf("%+v: differs by %g", o, w)
		}
	}
	if len(p.MFCC) != 3 {
		t.Errorf("%d cases", len(p.MFCC))
	}
	m, err := NewMFCC(MFCCOptions{})
	if err != nil || m.Count != 40 || m.FFT != 400 || m.Hop != 200 || m.Mels != 128 {
		t.Fatalf("defaults %+v, %v", m, err)
	}
	if _, err := m.Apply(make([]float32, 200)); err == nil || !strings.Contains(err.Error(), "expected more than 200 samples, found 200") {
		t.Errorf("error %v", err)
	}
	for want, o := range map[string]MFCCOptions{
		"sampling rate: expected 2 to":                        {SampleRate: 1},
		"found 1, 1 and 1":                                    {FFT: 1},
		"found 400, 401 and 200":                              {Window: 401},
		"at most as many coefficients, found 10 and 11":       {Mels: 10, Count: 11},
		"expected 0 ≤ low < high, found 8000 and 8000":        {Low: 8000},
		"expected 0 ≤ low < high, found 0 and -1":             {High: -1},
		"expected 1 to 4096 filters and at most as many coef": {Mels: 5000},
	} {
		if _, err := NewMFCC(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
}

// wav is a file of 16-bit samples.
func wav(rate, channels int, samples ...int16) string {
	u := binary.LittleEndian
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt ")
	b = u.AppendUint32(b, 16)
	b = u.AppendUint16(u.AppendUint16(b, 1), uint16(channels))
	b = u.AppendUint32(u.AppendUint32(b, uint32(rate)), uint32(2*channels*rate))
	b = u.AppendUint16(u.AppendUint16(b, uint16(2*channels)), 16)
	b = u.AppendUint32(append(b, "data"...), uint32(2*len(samples)))
	for _, s := range samples {
		b = u.AppendUint16(b, uint16(s))
	}
	return string(b)
}

func put(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	_, err := Commands(t.Context(), dir, "train", Words10, Options{})
	if want := "validation_list.txt: file not found: put validation_list.txt of the Speech Commands, version 2 there, from http://download."; err == nil ||
		!strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, expected %q", err, want)
	}
	put(t, dir, map[string]string{"validation_list.txt": "yes/b.wav\r\n", "testing_list.txt": "no/a.wav\n\nno/gone.wav\n"})
	if _, err = Commands(t.Context(), dir, "train", Words10, Options{}); err == nil || !strings.Contains(err.Error(), "put yes of the Speech Commands") {
		t.Errorf("error %v", err)
	}
	put(t, dir, map[string]string{
		"yes/a.wav": wav(16000, 1, 16384, -32768, 0), "yes/b.wav": wav(16000, 2, 100, 300, 0, 0),
		"no/a.wav": wav(8000, 1, 8192, 8192, 8192, 8192), "no/b.wav": "RIFF", "no/note.txt": "", "_background_noise_/x.wav": wav(1, 1, 1)})
	words := []string{"no", "yes"}
	for split, want := range map[string]string{
		"train":      "[no/b.wav yes/a.wav]",
		"validation": "[yes/b.wav]",
		"test":       "[no/a.wav]",
	} {
		f, err := Commands(t.Context(), dir, split, nil, Options{Length: 5})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range f.paths {
			rel, _ := filepath.Rel(dir, p)
			names = append(names, filepath.ToSlash(rel))
		}
		if fmt.Sprint(names) != want || !slices.Equal(f.Spec().Classes, words) || f.Spec().Steps != 5 {
			t.Errorf("%s: %s, expected %s", split, names, want)
		}
	}
	train, _ := Commands(t.Context(), dir, "train", words, Options{Length: 5})
	_, err = train.Sample(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), filepath.Join("no", "b.wav")+": is not a RIFF WAVE file") || strings.Count(err.Error(), "b.wav") != 1 {
		t.Errorf("error %v", err)
	}
	check(t, train, 1, []float32{.5, -1, 0, 0, 0}, 1)
	validation, _ := Commands(t.Context(), dir, "validation", words, Options{Length: 1})
	check(t, validation, 0, []float32{200. / 32768}, 1)
	if _, err := Commands(t.Context(), dir, "val", nil, Options{}); err == nil {
		t.Error("expected an error for a part that is not there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := train.Sample(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func check(t *testing.T, f *Folder, i int, want []float32, label int64) {
	t.Helper()
	s, err := f.Sample(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Spec().Check("sample", s); err != nil {
		t.Error(err)
	}
	if got := tensor.Data[float32](s.Inputs[0]); !slices.Equal(got, want) || tensor.Data[int64](s.Target)[0] != label {
		t.Errorf("sample %d: %v of class %v, expected %v of class %d", i, got, s.Target, want, label)
	}
}

// TestFolder checks rates, own lengths and coefficients.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	tone := make([]int16, 8000)
	for i := range tone {
		tone[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/8000))
	}
	put(t, dir, map[string]string{"a/x.wav": wav(8000, 1, tone...), "b/y.wav": wav(16000, 1), "b/z.wav": wav(1<<24, 1, tone...)})
	f, err := Open(t.Context(), dir, nil, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Sample(t.Context(), 0)
	if err != nil || s.Inputs[0].Dim(0) != 16000 {
		t.Fatalf("%v, %v", s.Inputs, err)
	}
	for i, v := range tensor.Data[float32](s.Inputs[0])[100:15900] {
		if want := 8000. / 32768 * math.Sin(2*math.Pi*440*float64(i+100)/16000); math.Abs(float64(v)-want) > 2e-4 {
			t.Fatalf("sample %d: %v, expected %v", i+100, v, want)
		}
	}
	if _, err := f.Sample(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "y.wav: expected 1 to 67108864 samples at 16000 Hz, found 0") {
		t.Errorf("error %v", err)
	}
	m, err := NewMFCC(MFCCOptions{Count: 20, FFT: 200, Mels: 64, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	f, err = Open(t.Context(), dir, nil, nil, Options{Length: 16000, MFCC: m})
	if err != nil {
		t.Fatal(err)
	}
	l, err := data.NewLoader(f, data.Options{Batch: 3, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Next(t.Context())
	if err != nil || !slices.Equal(b.Input.Shape(), []int{3, 161, 20}) || !slices.Equal(tensor.Data[int64](b.Target), []int64{0, 1, 1}) {
		t.Errorf("%+v, %v", b, err)
	}
	for want, o := range map[string]Options{"expected the rate of 8000 Hz and more than 100": {Rate: 8000, MFCC: m}, "found 16000 and 100": {Length: 100, MFCC: m},
		"found -1 and 0": {Rate: -1}} {
		if _, err := Open(t.Context(), dir, nil, nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
	if _, err := Open(t.Context(), dir, []string{"c"}, nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
