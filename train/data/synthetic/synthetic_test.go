package synthetic

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// sample returns a sample that is as the specification says.
func sample(t *testing.T, set data.Dataset, i int) data.Sample {
	t.Helper()
	s, err := set.Sample(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Spec().Check(fmt.Sprint("sample ", i), s); err != nil {
		t.Fatal(err)
	}
	if set.Steps(i) != s.Steps() {
		t.Errorf("sample %d has %d steps, Steps says %d", i, s.Steps(), set.Steps(i))
	}
	return s
}

// digest is a hash of the first n samples.
func digest(t *testing.T, set data.Dataset, n int) uint64 {
	h := fnv.New64a()
	for i := range n {
		s := sample(t, set, i)
		h.Write(s.Inputs[0].Bytes())
		h.Write(s.Target.Bytes())
	}
	return h.Sum64()
}

// made returns one set of each kind, with a seed.
func made(t *testing.T, seed uint64) map[string]data.Dataset {
	t.Helper()
	all := map[string]data.Dataset{}
	add := func(name string, set data.Dataset, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all[name] = set
	}
	l, err := NewListOps(ListOpsOptions{Seed: seed, Samples: 40})
	add("ListOps", l, err)
	c, err := NewCopying(CopyingOptions{Seed: seed, Samples: 40, Length: 20, Memorize: 5, Tokens: 9})
	add("copying", c, err)
	c, err = NewCopying(CopyingOptions{Seed: seed, Samples: 40, Length: 20, Memorize: 5, Tokens: 9, Selective: true})
	add("selective copying", c, err)
	for _, size := range []int{32, 64, 128} {
		p, err := NewPathfinder(PathfinderOptions{Seed: seed, Samples: 40, Size: size})
		add("Pathfinder "+strconv.Itoa(size), p, err)
	}
	return all
}

// TestFixed checks that samples follow from the seed and their number, and are those of earlier versions.
func TestFixed(t *testing.T) {
	want := map[string]uint64{"ListOps": 0x595dfc5140fc0905, "copying": 0xf8b08430513da14d, "selective copying": 0x2d3628695a18350d,
		"Pathfinder 32": 0x4dbbb8eedfd53551, "Pathfinder 64": 0x51cdb35e0475be8c, "Pathfinder 128": 0x97ef420ab259dad6}
	other := made(t, 2)
	for name, set := range made(t, 1) {
		if got := digest(t, set, 3); got != want[name] {
			t.Errorf("%q: %#x,", name, got)
		} else if got == digest(t, other[name], 3) {
			t.Errorf("%s: two seeds give the same samples", name)
		}
		late := sample(t, set, 39)
		again := sample(t, made(t, 1)[name], 39)
		if !tensor.Equal(late.Inputs[0], again.Inputs[0]) || tensor.Equal(late.Inputs[0], sample(t, set, 38).Inputs[0]) {
			t.Errorf("%s: sample 39 does not follow from its number", name)
		}
	}
}

// evaluate returns the value of an expression in words, how deep it is, and how many arguments its operators have at
// most. It shares nothing with the generator: it reads the text from left to right, with a stack.
func evaluate(words []string) (value, depth, args int, err error) {
	type open struct {
		op   string
		args []float64
	}
	stack := []open{{op: "top"}}
	for i, w := range words {
		top := &stack[len(stack)-1]
		switch {
		case w[0] == '[':
			stack = append(stack, open{op: w})
			depth = max(depth, len(stack))
		case w == "]":
			if len(stack) == 1 {
				return 0, 0, 0, fmt.Errorf("word %d closes nothing", i)
			}
			v := top.args
			args = max(args, len(v))
			if len(v) < 2 {
				return 0, 0, 0, fmt.Errorf("%s has %d arguments", top.op, len(v))
			}
			slices.Sort(v)
			var x float64
			switch top.op {
			case "[MIN":
				x = v[0]
			case "[MAX":
				x = v[len(v)-1]
			case "[MED":
				if x = v[len(v)/2]; len(v)%2 == 0 {
					x = math.Floor((v[len(v)/2-1] + v[len(v)/2]) / 2)
				}
			case "[SM":
				for _, a := range v {
					x = math.Mod(x+a, 10)
				}
			default:
				return 0, 0, 0, fmt.Errorf("unknown operator %s", top.op)
			}
			stack = stack[:len(stack)-1]
			stack[len(stack)-1].args = append(stack[len(stack)-1].args, x)
		default:
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				return 0, 0, 0, err
			}
			top.args = append(top.args, x)
			depth = max(depth, len(stack))
		}
	}
	if len(stack) != 1 || len(stack[0].args) != 1 {
		return 0, 0, 0, fmt.Errorf("%d expressions are open, with %d values", len(stack)-1, len(stack[0].args))
	}
	return int(stack[0].args[0]), depth, args, nil
}

func TestListOps(t *testing.T) {
	for _, o := range []ListOpsOptions{{Samples: 150, Seed: 3}, {Samples: 300, Least: 200, Most: 500}, {Samples: 300, Least: 3, Most: 30, Depth: 3, Args: 4},
		{Samples: 30, Least: 1, Most: 1}} {
		l, err := NewListOps(o)
		if err != nil {
			t.Fatal(err)
		}
		deepest, widest := 0, 0
		count := map[string]int{}
		var classes [10]int
		for i := range o.Samples {
			s := sample(t, l, i)
			tokens := tensor.Data[int64](s.Inputs[0])
			if n := len(tokens) - 1; n < l.o.Least || n > l.o.Most || tokens[n] != listEnd {
				t.Fatalf("%+v: %d tokens, of which the last is %d", l.o, len(tokens), tokens[n])
			}
			text := ListOpsText{}.Text(tokens)
			words := strings.Fields(text)
			for _, w := range words {
				count[w]++
			}
			value, depth, args, err := evaluate(words)
			if err != nil || int64(value) != tensor.Data[int64](s.Target)[0] {
				t.Fatalf("%s is %d, %v, the generator says %v", text, value, err, s.Target)
			}
			deepest, widest = max(deepest, depth), max(widest, args)
			classes[value]++
			if back, err := (ListOpsText{}).Encode(t.Context(), text); err != nil || !slices.Equal(back, tokens) {
				t.Fatalf("%s is read back as %v, %v", text, back, err)
			}
		}
		if o.Most == 1 {
			continue
		}
		if deepest != l.o.Depth || widest != l.o.Args {
			t.Errorf("%+v: depth %d and %d arguments occurred", l.o, deepest, widest)
		}
		if count["[MIN"]+count["[MAX"]+count["[MED"]+count["[SM"] != count["]"] || slices.Min(classes[:]) == 0 {
			t.Errorf("%+v: %v, classes %v", l.o, count, classes)
		}
		for _, op := range listWords[listMin:listClose] {
			if share := float64(count[op]) / float64(count["]"]); math.Abs(share-0.25) > 0.04 {
				t.Errorf("%+v: a share of %v is %s", l.o, share, op)
			}
		}
	}
	for want, o := range map[string]ListOpsOptions{
		"samples: expected 1 to":                       {},
		"found 65, 10, 501 and 1999":                   {Samples: 1, Depth: 65},
		"found 10, 1, 501 and 1999":                    {Samples: 1, Args: 1},
		"found 10, 10, 2 and 1":                        {Samples: 1, Least: 2, Most: 1},
		"expected expressions of 2 to 3 tokens with d": {Samples: 1, Least: 2, Most: 3},
	} {
		if _, err := NewListOps(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
}

func TestReadListOps(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadListOps(t.Context(), dir, "val")
	if want := "basic_val.tsv: file not found: put basic_val.tsv of the Long Range Arena there, from https://storage."; err == nil ||
		!strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, expected %q", err, want)
	}
	for text, want := range map[string]string{
		"Source\tTarget\n( ( ( [MED 4 ) 9 ) ] )\t6\n7\t7\n": "",
		"Source\tTarget\n( [MOD 4 )\t6\n":                   `basic_val.tsv: line 2: column 1: expected a digit, an operator such as [MAX, or ], found "[MOD"`,
		"Source\tTarget\n3\t10\n":                           `line 2: column 2: expected one of the classes`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "basic_val.tsv"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		set, err := ReadListOps(t.Context(), dir, "val")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, expected %q", err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s := sample(t, set, 0)
		if got := tensor.Data[int64](s.Inputs[0]); !slices.Equal(got, []int64{15, 7, 12, 17, 2}) || tensor.Data[int64](s.Target)[0] != 6 || set.Len() != 2 {
			t.Errorf("%v of class %v", got, s.Target)
		}
	}
	if _, err := ReadListOps(t.Context(), dir, "validation"); err == nil || !strings.Contains(err.Error(), "expected train, val or test") {
		t.Errorf("error %v", err)
	}
}

// FuzzListOpsText checks that any text is refused or gives tokens that stand for its words.
func FuzzListOpsText(f *testing.F) {
	f.Add("( [MAX 1 ) 2 ]")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := ListOpsText{}.Encode(t.Context(), text)
		if err != nil {
			return
		}
		words := strings.Fields(strings.Map(func(r rune) rune {
			if r == '(' || r == ')' {
				return ' '
			}
			return r
		}, text))
		if got := (ListOpsText{}).Text(tokens); got != strings.Join(words, " ") {
			t.Fatalf("%q is %q", text, got)
		}
	})
}

// TestCopying reads what is to be returned from the inputs.
func TestCopying(t *testing.T) {
	for _, o := range []CopyingOptions{{Length: 10, Memorize: 4, Tokens: 5}, {Length: 10, Memorize: 4, Tokens: 5, Selective: true},
		{Length: 4, Memorize: 4, Tokens: 3, Selective: true}, {Length: 4096, Memorize: 16, Tokens: 16, Selective: true}} {
		o.Samples = 400
		c, err := NewCopying(o)
		if err != nil {
			t.Fatal(err)
		}
		places, tokens := make([]int, o.Length), make([]int, o.Tokens)
		for i := range o.Samples {
			s := sample(t, c, i)
			x, y := tensor.Data[int64](s.Inputs[0]), tensor.Data[int64](s.Target)
			var kept []int64
			for at, v := range x[:o.Length] {
				if y[at] != data.Ignore {
					t.Fatalf("step %d has the label %d", at, y[at])
				}
				if v != 0 {
					places[at]++
					tokens[v]++
					kept = append(kept, v)
				}
			}
			if !slices.Equal(kept, y[o.Length:]) || len(kept) != o.Memorize {
				t.Fatalf("%v is to return %v", x, y)
			}
			for _, v := range x[o.Length:] {
				if v != int64(o.Tokens-1) {
					t.Fatalf("%v has no marker at its end", x)
				}
			}
		}
		if tokens[0]+tokens[o.Tokens-1] > 0 || slices.Min(tokens[1:o.Tokens-1]) == 0 {
			t.Errorf("%+v: tokens occur %v times", o, tokens)
		}
		if o.Length == 10 {
			for at, n := range places {
				if want := o.Samples * o.Memorize / o.Length; o.Selective && (n < want*2/3 || n > want*3/2) || !o.Selective && n != map[bool]int{true: o.Samples}[at < o.Memorize] {
					t.Errorf("%+v: place %d has a token %d times", o, at, n)
				}
			}
		}
	}
	for want, o := range map[string]CopyingOptions{
		"found 5, 4 and 9": {Samples: 1, Length: 4, Memorize: 5, Tokens: 9},
		"found 0, 4 and 9": {Samples: 1, Length: 4, Tokens: 9},
		"found 1, 4 and 2": {Samples: 1, Length: 4, Memorize: 1, Tokens: 2},
		"samples":          {},
	} {
		if _, err := NewCopying(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
}

// between returns the distance of two dashes: that of their middle lines, sampled at 21 points each.
func between(d *drawing, a, b *stamp, angleA, angleB float64) float64 {
	least := math.Hypot(float64(a.at.y-b.at.y), float64(a.at.x-b.at.x))
	if least > 3*float64(d.length) {
		return least - 2*float64(d.length)
	}
	for i := range 21 {
		for k := range 21 {
			s, u := float64(i)/20*float64(d.length), float64(k)/20*float64(d.length)
			least = min(least, math.Hypot(float64(a.at.y-b.at.y)+s*math.Sin(angleA)-u*math.Sin(angleB),
				float64(a.at.x-b.at.x)+s*math.Cos(angleA)-u*math.Cos(angleB)))
		}
	}
	return least
}

// TestPathfinder checks the pictures by their construction: the contours, the distances between their dashes, and the
// dots.
func TestPathfinder(t *testing.T) {
	for _, size := range []int{32, 64, 128} {
		n := 100
		if size > 32 {
			n = 30
		}
		if testing.Short() {
			n = 5
		}
		p, err := NewPathfinder(PathfinderOptions{Samples: n, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		classes, short := [2]int{}, 0
		for i := range n {
			d, err := p.draw(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			classes[d.class]++
			short += len(d.contours) - 2
			for k, c := range d.contours {
				want := 14
				if k >= 2 {
					want = 4
				}
				if len(c.all) != want {
					t.Fatalf("size %d, sample %d: contour %d has %d dashes, expected %d", size, i, k, len(c.all), want)
				}
			}
			checkDots(t, d)
			checkApart(t, d)
			x := tensor.Data[float32](sample(t, p, i).Inputs[0])
			if slices.Max(x) != 1 || slices.Min(x) != 0 {
				t.Errorf("size %d, sample %d: pixels are from %v to %v", size, i, slices.Min(x), slices.Max(x))
			}
		}
		if n == 100 && (classes[0] < 35 || classes[1] < 35) || short < n*3 {
			t.Errorf("size %d: %v pictures of the classes, %d short contours", size, classes, short)
		}
		draw(t, p)
	}
	for want, o := range map[string]PathfinderOptions{"found 33 and 14": {Samples: 1, Size: 33}, "found 32 and 2": {Samples: 1, Contour: 2}, "samples": {}} {
		if _, err := NewPathfinder(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, _ := NewPathfinder(PathfinderOptions{Samples: 1}); p != nil {
		if _, err := p.Sample(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
}

// checkDots checks that the dots are at the two ends of one long contour, or each at another one, and that the picture
// is bright there.
func checkDots(t *testing.T, d *drawing) {
	t.Helper()
	from, to := -1, -1
	for k, c := range d.contours[:2] {
		if c.origin == d.dots[0] {
			from = k
		}
		if c.tip == d.dots[1] {
			to = k
		}
	}
	if from < 0 || to < 0 || (from == to) != (d.class == 1) {
		t.Errorf("class %d: dots at the contours %d and %d", d.class, from, to)
	}
	for _, dot := range d.dots {
		if v := d.image[dot.y*d.size+dot.x]; v < 1 {
			t.Errorf("a dot has the brightness %v", v)
		}
	}
}

// checkApart checks that dashes which follow each other in a contour are at most two margins apart, up to the rounding
// of their places, and that others do not touch.
func checkApart(t *testing.T, d *drawing) {
	t.Helper()
	type dash struct {
		s           *stamp
		angle       float64
		contour, at int
	}
	var all []dash
	for k, c := range d.contours {
		for i, s := range c.all {
			all = append(all, dash{s, s.angle, k, i})
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			apart := between(d, a.s, b.s, a.angle, b.angle) - d.thickness
			next := a.contour == b.contour && a.at == b.at+1
			if next && apart > 2*float64(d.margin)+2.9 || !next && apart <= 0 {
				t.Errorf("size %d: dashes %d and %d of the contours %d and %d are %.2f apart, with a margin of %d", d.size, a.at, b.at, a.contour, b.contour,
					apart, d.margin)
			}
		}
	}
}

// draw writes pictures to the folder that ESSMC_PICTURES names, to look at.
func draw(t *testing.T, p *Pathfinder) {
	dir := os.Getenv("ESSMC_PICTURES")
	if dir == "" {
		return
	}
	const columns, rows, scale = 4, 2, 3
	n := p.o.Size + 2
	img := image.NewGray(image.Rect(0, 0, columns*n*scale, rows*n*scale))
	for i := range columns * rows {
		d, err := p.draw(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for at, v := range d.bytes() {
			for k := range scale * scale {
				img.SetGray((i%columns*n+at%p.o.Size)*scale+k%scale, (i/columns*n+at/p.o.Size)*scale+k/scale, color.Gray{v})
			}
		}
		t.Log("size", p.o.Size, "sample", i, "class", d.class)
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("pathfinder%d.png", p.o.Size)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(png.Encode(f, img), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSample measures a sample of each kind.
func BenchmarkSample(b *testing.B) {
	for _, size := range []int{32, 64, 128} {
		p, err := NewPathfinder(PathfinderOptions{Samples: 1 << 20, Size: size})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			for i := range b.N {
				if _, err := p.Sample(b.Context(), i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	l, err := NewListOps(ListOpsOptions{Samples: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ListOps", func(b *testing.B) {
		for i := range b.N {
			l.Sample(b.Context(), i)
		}
	})
}
