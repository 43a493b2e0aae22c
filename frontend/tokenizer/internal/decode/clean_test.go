package decode

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// cleanedBy is the replacement as transformers states it.
var cleanedBy = [][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

// TestCleaner compares a text that comes in parts with the whole one.
func TestCleaner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{" ", " ", "'", " '", " ' ", "n", "t", "n't", "'m", "m", "s", "'s", "v", "e", "'ve", "r", "'re", ".", ",", "?", "!", "a", "é", " x", "  "}
	d := &Decoder{}
	d.Clean()
	changed := 0
	for range 20000 {
		var whole, got strings.Builder
		s := d.Stream(true)
		for range r.IntN(16) {
			part := parts[r.IntN(len(parts))]
			whole.WriteString(part)
			s.Put(part)
			got.WriteString(s.Text())
		}
		s.Close()
		got.WriteString(s.Text())
		want := whole.String()
		for _, c := range cleanedBy {
			want = strings.ReplaceAll(want, c[0], c[1])
		}
		if want != whole.String() {
			changed++
		}
		if got.String() != want {
			t.Fatalf("%q: %q in parts, expected %q", whole.String(), got.String(), want)
		}
	}
	if changed < 5000 {
		t.Errorf("only %d texts have something to clean", changed)
	}
}
