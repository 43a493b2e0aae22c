// Package audio reads recordings for training: folders of .wav files, such as the Speech Commands. It changes their
// sampling rate and computes MFCC, both as the Python library torchaudio defines them.
package audio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// MaxFile is the number of bytes that a recording may have, and MaxSteps the number of its samples after the change of
// the rate.
const (
	MaxFile  = 256 << 20
	MaxSteps = 1 << 26
	maxList  = 64 << 20
)

// Options say how recordings are read.
type Options struct {
	Rate   int   // the sampling rate in Hz that all get; 0: 16000
	Length int   // the number of samples that all get at that rate: by zeros at the end, or cut off; 0: their own
	MFCC   *MFCC // coefficients instead of samples; nil: none
}

// Folder is a folder of recordings: a folder for each class, and a .wav file in it for each sample. Files are read when
// a sample is asked for. Inputs are (samples, 1) in [-1, 1], the mean of all channels, or the coefficients (frames,
// Count).
type Folder struct {
	options Options
	names   []string
	paths   []string
	labels  []int
}

// Open returns the recordings in the folders of dir, in the order of classes and names. Classes are the folders that
// are given; nil: all folders whose names do not begin with "_", sorted. Keep, if not nil, says which ones to keep, by
// their paths within dir, with slashes.
func Open(ctx context.Context, dir string, classes []string, keep func(path string) bool, o Options) (*Folder, error) {
	if o.Rate == 0 {
		o.Rate = 16000
	}
	if o.Rate < 1 || o.Rate > MaxRate || o.Length < 0 || o.Length > MaxSteps {
		return nil, fmt.Errorf("recordings: expected a rate of 1 to %d Hz and at most %d samples, found %d and %d",
			MaxRate, MaxSteps, o.Rate, o.Length)
	}
	if o.MFCC != nil && (o.MFCC.SampleRate != o.Rate || o.Length > 0 && o.Length <= o.MFCC.FFT/2) {
		return nil, fmt.Errorf("MFCC: expected the rate of %d Hz and more than %d samples, found %d and %d",
			o.Rate, o.MFCC.FFT/2, o.MFCC.SampleRate, o.Length)
	}
	if classes == nil {
		list, err := files.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.IsDir() && !strings.HasPrefix(e.Name(), "_") {
				classes = append(classes, e.Name())
			}
		}
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%s: expected a folder for each class, found none", dir)
	}
	f := &Folder{options: o, names: classes}
	for k, name := range classes {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		list, err := files.ReadDir(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".wav") && (keep == nil || keep(name+"/"+e.Name())) {
				f.paths, f.labels = append(f.paths, filepath.Join(dir, name, e.Name())), append(f.labels, k)
			}
		}
	}
	if len(f.paths) == 0 {
		return nil, fmt.Errorf("%s: expected .wav files of this part in the folders %.300q, found none", dir, classes)
	}
	return f, nil
}

// The words of the Speech Commands, in the order in which the reference numbers them: those of the task with 10
// classes, and all.
var (
	Words10 = []string{"yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"}
	Words35 = []string{"bed", "cat", "down", "five", "forward", "go", "house", "left", "marvin", "no", "on", "right", "sheila", "tree",
		"up", "visual", "yes", "backward", "bird", "dog", "eight", "follow", "four", "happy", "learn", "nine", "off", "one", "seven", "six",
		"stop", "three", "two", "wow", "zero"}
)

var commands = data.Source{Name: "the Speech Commands, version 2",
	URL:  "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
	Hint: "unpack it there"}

// Commands returns the recordings of Warden's Speech Commands in the folder dir: those of the part "validation" or
// "test", which the files validation_list.txt and testing_list.txt list, or of the part "train", which none of them
// lists. Length 0 stands for 16000.
func Commands(ctx context.Context, dir, split string, words []string, o Options) (*Folder, error) {
	if split != "train" && split != "validation" && split != "test" {
		return nil, fmt.Errorf("part of the data: expected train, validation or test, found %q", split)
	}
	if o.Length == 0 {
		o.Length = 16000
	}
	part := map[string]string{}
	for _, list := range []struct{ name, part string }{{"validation_list.txt", "validation"}, {"testing_list.txt", "test"}} {
		path := filepath.Join(dir, list.name)
		b, err := data.ReadFile(ctx, path, maxList)
		if err != nil {
			return nil, commands.Missing(path, err)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" {
				part[line] = list.part
			}
		}
	}
	keep := func(path string) bool { return part[path] == split || part[path] == "" && split == "train" }
	f, err := Open(ctx, dir, words, keep, o)
	if lost := (*fs.PathError)(nil); errors.As(err, &lost) {
		return nil, commands.Missing(lost.Path, err)
	}
	return f, err
}

// Len implements data.Dataset.
func (f *Folder) Len() int { return len(f.paths) }

// Spec implements data.Dataset.
func (f *Folder) Spec() data.Spec {
	s := data.Spec{Features: 1, Steps: f.options.Length, Inputs: 1, Classes: f.names}
	if m := f.options.MFCC; m != nil {
		if s.Features = m.Count; s.Steps > 0 {
			s.Steps = m.Frames(s.Steps)
		}
	}
	return s
}

// Steps implements data.Dataset. Without a length it is not known before a recording is read: it is the same for all.
func (f *Folder) Steps(int) int { return f.Spec().Steps }

// Sample implements data.Dataset.
func (f *Folder) Sample(ctx context.Context, i int) (data.Sample, error) {
	if ctx.Err() != nil {
		return data.Sample{}, context.Cause(ctx)
	}
	path := f.paths[i]
	v, features, err := f.read(path)
	if err != nil {
		return data.Sample{}, fmt.Errorf("%s: %w", path, err)
	}
	target := tensor.Scalar(int64(f.labels[i]))
	return data.Sample{Inputs: []*tensor.Tensor{tensor.FromSlice(v, len(v)/features, features)}, Target: target}, nil
}

// read returns the features of a recording, and how many a step has.
func (f *Folder) read(path string) ([]float32, int, error) {
	info, err := files.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > MaxFile {
		return nil, 0, &files.LimitError{Size: info.Size(), Limit: MaxFile}
	}
	a, err := arrays.Read(path)
	if err != nil {
		return nil, 0, errors.New(strings.TrimPrefix(err.Error(), path+": "))
	}
	x := mono(a.Tensor)
	if i := slices.IndexFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }); i >= 0 {
		return nil, 0, fmt.Errorf("sample %d: expected a finite number, found %v", i, x[i])
	}
	r, err := NewResampler(a.Rate, f.options.Rate)
	if err != nil {
		return nil, 0, err
	}
	limit := f.options.Length
	if limit == 0 {
		if limit = r.Len(len(x)); limit < 1 || limit > MaxSteps {
			return nil, 0, fmt.Errorf("expected 1 to %d samples at %d Hz, found %d", MaxSteps, f.options.Rate, limit)
		}
	}
	y := r.Apply(x, limit)
	if len(y) < limit {
		y = append(slices.Grow(slices.Clone(y), limit-len(y)), make([]float32, limit-len(y))...)
	}
	if f.options.MFCC == nil {
		return y, 1, nil
	}
	y, err = f.options.MFCC.Apply(y)
	return y, f.options.MFCC.Count, err
}

// mono returns the mean of the channels.
func mono(x *tensor.Tensor) []float32 {
	v, channels := tensor.Data[float32](x), x.Dim(1)
	if channels == 1 {
		return v
	}
	out := make([]float32, x.Dim(0))
	for t := range out {
		sum := 0.0
		for _, c := range v[t*channels : (t+1)*channels] {
			sum += float64(c)
		}
		out[t] = float32(sum / float64(channels))
	}
	return out
}
