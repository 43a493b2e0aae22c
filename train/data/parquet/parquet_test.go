package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/train/data"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

type row struct {
	Kind  string    `parquet:"kind,dict"`
	Flag  bool      `parquet:"flag"`
	Digit int32     `parquet:"digit"`
	A     float32   `parquet:"a"`
	B     float64   `parquet:"b"`
	X     []float32 `parquet:"x,list"`
	Y     []int64   `parquet:"y"`
	Maybe *float64  `parquet:"maybe"`
	Deep  [2]byte   `parquet:"deep"`
	Pair  struct{ U, V int32 }
}

func rows() []row {
	v := 1.5
	return []row{
		{Kind: "cat", Digit: 10, A: 1, B: 2, X: []float32{1, 2}, Y: []int64{3, 4}, Maybe: &v},
		{Kind: "ant", Flag: true, Digit: 9, A: 3, B: 4, X: []float32{5}, Y: []int64{6}, Maybe: &v},
		{Kind: "cat", Digit: 10, A: 5, B: -6, X: []float32{7, 8, 9}, Y: []int64{1, 2, 3}, Maybe: &v},
	}
}

// file returns rows in groups of two.
func file(t testing.TB, all []row, codec compress.Codec) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pq.NewGenericWriter[row](&b, pq.Compression(codec), pq.MaxRowsPerRowGroup(2))
	if _, err := w.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func show(t testing.TB, set data.Dataset) string {
	t.Helper()
	var out []string
	for i := range set.Len() {
		s, err := set.Sample(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Spec().Check("sample", s); err != nil {
			t.Fatal(err)
		}
		in, _ := s.Inputs[0].Float64s()
		to, _ := s.Target.Float64s()
		out = append(out, fmt.Sprint(in, s.Inputs[0].Shape(), to))
	}
	return strings.Join(out, " ")
}

func TestRead(t *testing.T) {
	nan := rows()
	nan[2].A = float32(nan[2].A / float32(0*nan[2].B))
	empty := rows()
	empty[1].X = nil
	ragged := rows()
	ragged[2].Y = []int64{1, 2}
	null := rows()
	null[2].Maybe = nil
	for want, c := range map[string]struct {
		all []row
		o   Options
	}{
		"[1 2] [2 1] [1] [3 4] [2 1] [0] [5 -6] [2 1] [1]":                          {rows(), Options{Label: "kind", Features: []string{"a", "b"}}},
		"[1 2] [1 2] [1] [3 4] [1 2] [0] [5 -6] [1 2] [1]":                          {rows(), Options{Label: "digit", Features: []string{"a", "b"}, Steps: 1}},
		"[1] [1 1] [0] [3] [1 1] [1] [5] [1 1] [0]":                                 {rows(), Options{Label: "flag", Features: []string{"a"}}},
		"[1 3 2 4] [2 2] [1 2] [5 6] [1 2] [3 4] [7 1 8 2 9 3] [3 2] [5 -6]":        {rows(), Options{Targets: []string{"a", "b"}, Features: []string{"x", "y"}}},
		"[100 98] [2] [0] [98 111] [2] [1] [100 98] [2] [0]":                        {rows(), Options{Label: "kind", Text: "kind", Length: 2, Classes: []string{"cat", "ant"}}},
		"[1.5] [1 1] [10] [1.5] [1 1] [9] [1.5] [1 1] [10]":                         {rows(), Options{Targets: []string{"digit"}, Features: []string{"maybe"}}},
		`column "kind", group 0 of rows, row 1: expected one of the classes ["cat"`: {rows(), Options{Label: "kind", Features: []string{"a"}, Classes: []string{"cat"}}},
		`column "a", group 1 of rows, row 2: expected a finite number`:              {nan, Options{Label: "kind", Features: []string{"a"}}},
		`column "x", group 0 of rows, row 1: expected a value, found null or an e`:  {empty, Options{Label: "kind", Features: []string{"x"}}},
		`column "maybe", group 1 of rows, row 2: expected a value, found null`:      {null, Options{Label: "kind", Features: []string{"maybe"}}},
		`column "y", row 2: expected a list of 3, as in column "x", found 2`:        {ragged, Options{Label: "kind", Features: []string{"x", "y"}}},
		`column "y": expected lists: false, found true`:                             {rows(), Options{Label: "kind", Features: []string{"a", "y"}}},
		`column "a": expected lists: true, found false`:                             {rows(), Options{Label: "kind", Features: []string{"x", "a"}}},
		`column "kind", group 0 of rows, row 0: expected a number, found BYTE_ARR`:  {rows(), Options{Label: "kind", Features: []string{"kind"}}},
		`column "a", group 0 of rows, row 0: expected text, found FLOAT`:            {rows(), Options{Label: "kind", Text: "a"}},
		`column "z": expected one of ["kind" "flag"`:                                {rows(), Options{Label: "z", Text: "kind"}},
		`column "Pair": expected a value or a list, found a structure of 2`:         {rows(), Options{Label: "kind", Features: []string{"Pair"}}},
		"expected either a label or targets, and either text or features":           {rows(), Options{Label: "kind"}},
		"expected a multiple of 2 steps as the number of features, found 1":         {rows(), Options{Label: "kind", Features: []string{"a"}, Steps: 2}},
		"expected 0 for the number of steps of lists, found 2":                      {rows(), Options{Label: "kind", Features: []string{"x"}, Steps: 2}},
	} {
		for _, codec := range []compress.Codec{&pq.Uncompressed, &pq.Snappy, &pq.Zstd, &pq.Gzip} {
			path := filepath.Join(t.TempDir(), "x.parquet")
			if err := os.WriteFile(path, file(t, c.all, codec), 0o666); err != nil {
				t.Fatal(err)
			}
			set, err := Read(t.Context(), path, c.o)
			if err != nil {
				if !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v, expected %q", codec, err, want)
				}
			} else if got := show(t, set); got != want {
				t.Errorf("%s: %s, expected %s", codec, got, want)
			}
		}
	}
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "no"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := file(t, rows(), &pq.Snappy)
	if _, err := read(ctx, bytes.NewReader(b), int64(len(b)), Options{Label: "kind", Features: []string{"a"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestDamaged cuts a file off at each place and flips bits of each byte: an error, or samples as they are specified.
func TestDamaged(t *testing.T) {
	b := file(t, rows(), &pq.Snappy)
	o := Options{Label: "kind", Features: []string{"x", "y"}}
	for n := range b {
		if _, err := read(t.Context(), bytes.NewReader(b[:n]), int64(n), o); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(b))
		}
	}
	for i := range b {
		for _, flip := range []byte{1, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= flip
			if set, err := read(t.Context(), bytes.NewReader(c), int64(len(c)), o); err == nil {
				show(t, set)
			}
		}
	}
	for want, text := range map[string]string{
		"expected at least 12 bytes, found 3":                   "PAR",
		`expected PAR1 at the end, found "PARE"`:                "PAR1\x00\x00\x00\x00\x00\x00\x00\x00PARE",
		"footer: expected at most 4 bytes, found 2147483648":    "PAR1\x00\x00\x00\x00\x00\x00\x00\x80PAR1",
		"footer: expected at most 262144 elements of lists":     "PAR1\x19\xfc\xff\xff\xff\xff\x07\x07\x00\x00\x00PAR1",
		"footer: ends within a value":                           "PAR1\x18\x7f\x02\x00\x00\x00PAR1",
		"footer: expected a value of a known type, found type ": "PAR1\x1e\x01\x00\x00\x00PAR1",
		"footer: expected structures of at most depth 32":       "PAR1" + strings.Repeat("\x1c", 40) + "\x28\x00\x00\x00PAR1",
	} {
		if _, err := read(t.Context(), strings.NewReader(text), int64(len(text)), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %q", text, err, want)
		}
	}
}

// FuzzRead checks that any file is refused, or gives samples as they are specified.
func FuzzRead(f *testing.F) {
	for _, codec := range []compress.Codec{&pq.Uncompressed, &pq.Snappy} {
		f.Add(file(f, rows(), codec), byte(0))
		f.Add(file(f, rows()[:1], codec), byte(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, bits byte) {
		o := Options{Label: "kind", Features: []string{"x", "y"}}
		if bits&1 > 0 {
			o = Options{Targets: []string{"a"}, Text: "kind"}
		}
		if set, err := read(t.Context(), bytes.NewReader(b), int64(len(b)), o); err == nil {
			show(t, set)
		}
	})
}
