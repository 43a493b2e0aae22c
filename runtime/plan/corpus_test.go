package plan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestCorpus checks the promise that plans of earlier versions keep loading, and keep saying the same. A file in the corpus
// is never written again; with -update the graphs that are not there yet are added under the present major version.
func TestCorpus(t *testing.T) {
	const present = "v1"
	if *update {
		for _, name := range sortedKeys(graphs) {
			path := filepath.Join("testdata", "corpus", present, name+".essm")
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
					WriteFile(path, graphs[name](t))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	files, err := filepath.Glob("testdata/corpus/*/*.essm")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < len(graphs) {
		t.Errorf("the corpus has %d files, expected at least %d", len(files), len(graphs))
	}
	for _, path := range files {
		t.Run(filepath.ToSlash(path), func(t *testing.T) {
			f, err := Open(path, ops, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := dump(f.Graph())
			golden := path[:len(path)-len(".essm")] + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the graph is\n%s\nexpected\n%s", got, want)
			}
		})
	}
}
