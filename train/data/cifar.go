package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// CIFAROptions say how pictures are read.
type CIFAROptions struct {
	Gray   bool // one number for a pixel, its brightness, instead of red, green and blue
	Coarse bool // of CIFAR-100, the 20 groups of classes instead of the 100 classes
}

const cifarSide = 32

var (
	cifar10 = Source{Name: "CIFAR-10 (binary version)", URL: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
		Hint: "unpack it, and give the folder cifar-10-batches-bin"}
	cifar100 = Source{Name: "CIFAR-100 (binary version)", URL: "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
		Hint: "unpack it, and give the folder cifar-100-binary"}
)

// CIFAR10 reads the pictures of Krizhevsky's CIFAR-10 in its binary version from the folder dir: the part "train"
// (50,000 samples, data_batch_1.bin to data_batch_5.bin) or "test" (10,000, test_batch.bin). Inputs are (1024, 3) in
// [0, 1], row by row, or (1024, 1) if Gray is set. The names of the classes come from batches.meta.txt, if that is
// there.
func CIFAR10(ctx context.Context, dir, split string, o CIFAROptions) (Dataset, error) {
	var names []string
	switch split {
	case "train":
		names = []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"}
	case "test":
		names = []string{"test_batch.bin"}
	default:
		return nil, splitError(split, "train", "test")
	}
	return cifar(ctx, cifar10, dir, names, "batches.meta.txt", []int{10}, 0, o)
}

// CIFAR100 reads CIFAR-100 in its binary version: the part "train" (50,000 samples, train.bin) or "test" (10,000,
// test.bin). Inputs are as those of CIFAR10. Classes are the 100 fine ones, or the 20 coarse ones if Coarse is set.
func CIFAR100(ctx context.Context, dir, split string, o CIFAROptions) (Dataset, error) {
	if split != "train" && split != "test" {
		return nil, splitError(split, "train", "test")
	}
	label, names := 1, "fine_label_names.txt"
	if o.Coarse {
		label, names = 0, "coarse_label_names.txt"
	}
	return cifar(ctx, cifar100, dir, []string{split + ".bin"}, names, []int{20, 100}, label, o)
}

// cifar reads files of records.
func cifar(ctx context.Context, from Source, dir string, names []string, meta string, classes []int, label int,
	o CIFAROptions) (Dataset, error) {
	p := &pictures{height: cifarSide, width: cifarSide, rgb: true, gray: o.Gray, classes: numbered(classes[label])}
	for _, name := range names {
		path := filepath.Join(dir, name)
		b, err := ReadFile(ctx, path, MaxFile)
		if err != nil {
			return nil, from.Missing(path, err)
		}
		if err := p.records(b, classes, label); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	b, err := ReadFile(ctx, filepath.Join(dir, meta), 1<<16)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if words := strings.Fields(string(bytes.ToValidUTF8(b, []byte("?")))); len(words) == classes[label] {
		p.classes = words
	}
	return p, nil
}

// records adds the records of a file: the labels, each with its number of classes, of which one is used, and a picture
// of three channels.
func (p *pictures) records(b []byte, classes []int, label int) error {
	record := len(classes) + 3*p.height*p.width
	if len(b) == 0 || len(b)%record != 0 {
		return fmt.Errorf("expected records of %d bytes, found %d bytes, which end within record %d",
			record, len(b), len(b)/record)
	}
	for i := 0; len(b) > 0; i, b = i+1, b[record:] {
		for k, n := range classes {
			if int(b[k]) >= n {
				return fmt.Errorf("record %d: expected a label in [0, %d), found %d", i, n, b[k])
			}
		}
		p.labels = append(p.labels, b[label])
		p.pixels = append(p.pixels, b[len(classes):record]...)
	}
	return nil
}
