package irtext

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

const onnxText = `
# a comment
<
  ir_version: 7,
  opset_import: [ "ai.onnx" : 10, "com.test" : 3 ],
  producer_name: "somebody", producer_version: "1", domain: "d", model_version: 3, doc_string: "doc",
  metadata_props: [ "k" : "v" ]
>
agraph (float[N, 128] X, float[B,floordiv(L+1, 2)] Y, seq(optional(int64[])) S) => (C, float[2] w2)
  <float[2] w = {1, -2.5e-1}, int64 s = {7}, float[2] w2 = {0, 0}, float[N,128] T, float unnamed>
{
  T = Same <int = 3, float = 2, string="s", tensor = float[2] {1, 2}, ints = [1, 2], floats = [1, 2.5], strings: strings = []> (X)
  , "unnamed" = com.test.Vague (T, w,,"")
  [label] C = Same (T) <graph = g1 (float x) => (y) { y = Same(x) }, type = float[B], types = [int64, float[2]],
    graphs = [g2 () => () {}, g3 () => () {}], tensors = [float {1}, int64[1] name = {2}], floats = [inf, -nan]>
}
`

// Spaces, comments, attributes on either side and without annotations, as in ONNX's own documentation and tests.
func TestParseONNX(t *testing.T) {
	g, err := Parse([]byte(onnxText), "onnx", testOps(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Name != "agraph" || g.Doc != "doc" || g.Meta["k"] != "v" || g.Meta["producer_name"] != "somebody" ||
		g.Meta["model_version"] != "3" || g.Opsets[""] != 10 {
		t.Errorf("header: %q %v %v", g.Doc, g.Meta, g.Opsets)
	}
	if got := g.Inputs[1].Type.String(); got != "float[B,floordiv(1+L,2)]" && got != "float[B,floordiv(L+1,2)]" {
		t.Errorf("type %s", got)
	}
	a := g.Nodes[0].Attrs
	if a.Int("int", 0) != 3 || a.Float("float", 0) != 2 || a.Floats("floats", nil)[0] != 1 ||
		a.Tensor("tensor").Len() != 2 || a.Strs("strings", nil) == nil {
		t.Errorf("attributes: %v", a)
	}
	v := g.Nodes[1]
	if len(v.Outputs) != 2 || v.Outputs[0] != nil || v.Outputs[1].Name != "unnamed" || len(v.Inputs) != 4 ||
		v.Inputs[2] != nil || v.Inputs[3] != nil {
		t.Errorf("node %v: %v, %v", v, v.Inputs, v.Outputs)
	}
	if n := g.Nodes[2]; n.Name != "label" || len(n.Subgraphs()) != 3 || len(n.Attrs) != 6 {
		t.Errorf("node %v: %v", n, n.Attrs)
	}
	if g.Outputs[0].Type.String() != "float[N,128]" {
		t.Errorf("output type %v", g.Outputs[0].Type)
	}
}

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("seq(", 40) + "float" + strings.Repeat(")", 40)
	graphs := strings.Repeat("y = Same(x) <graph = g () => () {", 40)
	for src, want := range map[string]string{
		"":                                `t:1:1: expected the name of a graph, found the end of the text`,
		"g":                               `t:1:2: expected "(" before the inputs of graph g, found the end of the text`,
		"g (":                             `t:1:4: expected the name of a value, found the end of the text`,
		"g (x) => () {}":                  `t:1:4: expected a type before input "x", found none`,
		"g (float x, float x) => () {}":   `t:1:19: expected a name that is free, found a second value "x"`,
		"g (float x = {1}) => () {}":      `t:1:12: expected inputs without defaults`,
		"g () => (y) {}":                  `t:1:10: expected output "y" of graph "g" to be defined`,
		"g () => () {":                    `t:1:13: expected a name or "=", found the end`,
		"g () => () {}\nf":                `t:2:1: expected the end of the text after the graph (functions are not supported), found "f"`,
		"g () => ()\n{\n  y = Nope ()\n}": `t:3:7: expected a known operator, found Nope of domain ""`,
		"g () => () { y = Same:o () }":    `expected an operator without overload`,
		"<opset_import: [\"\" : 1]> g () => () { y = test.Gen () }":                  `expected an operator of a domain that opset_import names, found Gen of domain "test"`,
		"<opset_import: [\"com.test\":2]> g()=>() {y=com.test.Vague()}":              `expected a known operator, found Vague of domain "com.test" in version 2`,
		"g () => () { y = Same (x) }":                                                `t:1:24: expected a value that is defined before it is read, found "x"`,
		"g () => () { y = Same () }":                                                 `t:1:14: node Same -> y: input 0 (x) is missing`,
		"g (float x) => () { y = Same <bad = 1> (x) }":                               `operator Same has no attribute "bad"`,
		"g (float x) => () { y = Same <int = 1.5> (x) }":                             `expected a whole number, a whole number of 64 bits, found 1.5`,
		"g (float x) => () { y = Same <int: float = 1.5> (x) }":                      `attribute "int": expected int, found float`,
		"g (float x) => () { y = Same <int: what = 1.5> (x) }":                       `t:1:36: expected the type of an attribute, found "what"`,
		"g (float x) => () { y = Same <bad = []> (x) }":                              `the list is empty`,
		"g (float x) => () { y = Same <int = [1]> (x) }":                             `expected one int, found a list`,
		"g (float x) => () { y = Same <ints = 1> (x) }":                              `expected a list of int, found "1"`,
		"g (float x) => () { y = Same <int = 1, int = 1> (x) }":                      `expected each attribute once, found "int" again`,
		"g (float x) => () { y = Same <bad = @ref> (x) }":                            `reference to the attribute of a function`,
		"g (float x) => () { y = Same <float = abc> (x) }":                           `expected a number, found "abc"`,
		"g (float x) => () { y = Same <float = 1e999> (x) }":                         `expected a number that a float of 64 bits can hold, found 1e999`,
		"g (float x) => () { y = Same <string = \"abc> (x) }":                        `found a string without an end`,
		"g (float x) => (int64 y) { y = Same (x) }":                                  `expected type float for "y" as operator Same gives it, found int64`,
		"g (float x) => (int64 x) {}":                                                `expected type float for output "x", found int64`,
		"g () => (float y) { y = com.test.Vague() z = com.test.Vague() }":            `t:1:42: expected a stated type for "z"`,
		"g () => () <float z> {}":                                                    `expected a node that computes "z", found none`,
		"g () => () <float w = {1, 2}> {}":                                           `expected 1 numbers of float, found more`,
		"g () => () <float[3] w = {1, 2}> {}":                                        `expected 3 numbers of float[3], found 2`,
		"g () => () <float[4000000000000000000] w = {}> {}":                          `too large`,
		"g () => () <float[100000000] w = {1}> {}":                                   `expected 100000000 elements of float[100000000], found fewer`,
		"g () => () <float[-1] w = {1}> {}":                                          `negative dimension -1`,
		"g () => () <float[N] w = {1}> {}":                                           `expected a tensor whose dimensions are numbers, found float[N]`,
		"g () => () <float[] w = {1}> {}":                                            `expected a tensor of known shape`,
		"g () => () <seq(float) w = {1}> {}":                                         `expected a tensor of known shape`,
		"g () => () <int8 w = {128}> {}":                                             `expected a whole number that fits int8, found 128`,
		"g () => () <uint4 w = {16}> {}":                                             `expected a whole number that fits uint4, found 16`,
		"g () => () <float16 w = {1.5}> {}":                                          `expected a bit pattern that fits float16, found 1.5`,
		"g () => () <bool w = {2}> {}":                                               `expected a whole number that fits bool, found 2`,
		"g () => () <float w = {nan(0x800000)}> {}":                                  `is not a NaN of 32 bits`,
		"g () => () <string[2] w = {\"a\"}> {}":                                      `expected 2 strings, found 1`,
		"g () => () <float[2] w = [\"location\": \"w\"]> {}":                         `expected constants inside the text only, found one in "w"`,
		"g () => () <float[2] w = [\"offset\": \"0\"]> {}":                           `expected a location, found none`,
		"g () => () <float[2] w = [\"location\": \"w\", \"length\": \"9\"]> {}":      `expected 8 bytes for float32[2], found length 9`,
		"g () => () <float[2] w = [\"location\": \"w\", \"offset\": \"-9\"]> {}":     `expected a whole number for offset, found "-9"`,
		"g (map(int64, float) x) => () {}":                                           `expected a type of a tensor, sequence or optional, found "map"`,
		"g (float[L+] x) => () {}":                                                   `t:1:10: dimension "L+"`,
		"g (" + deep + " x) => () {}":                                                `expected at most 32 levels of nesting`,
		"g (float x) => () {" + graphs:                                               `expected at most 32 levels of nesting`,
		"g () => () <parameter float[2] w> {}":                                       `expected "=" before the content of parameter w, found ">"`,
		"g () => () <parameter w = {1}> {}":                                          `t:1:23: expected a type before "w", found none`,
		"g () => () <parameter float w = {1}, float w = {1}> {}":                     `found a second value "w"`,
		"g () => () <float w = {1}, update w = w> {}":                                `t:1:28: expected the update of a parameter, found "w"`,
		"g () => () <parameter float w = {1}, update w = y> {}":                      `t:1:38: expected an output that updates "w", found "y"`,
		"g () => (w) <parameter float w = {1}, update w = w, update w = w> {}":       `value w: has two updates`,
		"g (int64 x) => (x) <parameter float w = {1}, update w = x> {}":              `t:1:46: expected an update of type float for "w", found "x" of type int64`,
		"g (float x) => () {y = Same(x) <graph = s()=>()<parameter float w={1}>{}>}": `t:1:49: expected parameters in the outermost graph only, found one in graph "s"`,
		"<unknown: 3> g () => () {}":                                                 `expected a key of the header, found "unknown"`,
		"<ir_version: 3, ir_version: 3> g () => () {}":                               `expected each key once`,
		"<opset_import: [\"\":1, \"ai.onnx\":2]> g () => () {}":                      `expected each domain once`,
	} {
		_, err := Parse([]byte(src), "t", testOps(), Options{})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			!strings.HasPrefix(err.Error(), "t:") {
			t.Errorf("%s\n  gives %v\n  expected %s", src[:min(len(src), 100)], err, want)
		}
	}
}

// Names are bounded, and messages about them short.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 20<<20)
	for _, src := range []string{
		long, long + " () => () {}", "g (float " + long + ") => () {}", "g (float \"" + long + "\") => () {}",
		"g () => (" + long + ") {}", "g (" + long + " x) => () {}", "g (float x) => () { y = " + long + " (x) }",
		"g (float x) => () { y = Same <" + long + " = 1> (x) }", "<" + long + ": 3> g () => () {}",
		"g (float[" + long + "] x) => () {}",
	} {
		_, err := Parse([]byte(src), "t", testOps(), Options{})
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("%.20s…: %.200v", src, err)
		} else if m := err.Error(); !strings.Contains(m, "at most 65536 bytes") && !strings.Contains(m, "dimension") {
			t.Errorf("%.20s…: %v", src, err)
		}
	}
	fits := strings.Repeat("x", 1<<16)
	_, err := Parse([]byte("g () => ("+fits+") {}"), "t", testOps(), Options{})
	if err == nil || len(err.Error()) > 2000 {
		t.Errorf("an output that does not exist: %.2000v", err)
	}
	if _, err := Parse([]byte("g (float "+fits+") => () {}"), "t", testOps(), Options{}); err != nil {
		t.Error(err)
	}
}

func TestParseBudget(t *testing.T) {
	src := []byte(`g (float x) => () { a = Same (x) b = Same (x) }`)
	for want, b := range map[string]Budget{
		"at most 1 nodes":          {Nodes: 1},
		"text of at most 10 bytes": {Bytes: 10},
	} {
		if _, err := Parse(src, "t", testOps(), Options{Budget: b}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %s, found %v", want, err)
		}
	}
	two := []byte(`g () => (a, b) <float[2] a = ["location": "w"], float[2] b = ["location": "w"]> {}`)
	o := Options{Budget: Budget{Data: 15}, Open: func(string, int64, int64) ([]byte, error) { return make([]byte, 8), nil }}
	if _, err := Parse(two, "t", testOps(), o); err == nil || !strings.Contains(err.Error(), "at most 15 bytes") {
		t.Errorf("data budget: %v", err)
	}
	o.Budget.Data = 16
	if _, err := Parse(two, "t", testOps(), o); err != nil {
		t.Error(err)
	}
}

func TestParsePorts(t *testing.T) {
	for src, want := range map[string]string{
		"g (float x) => () {\n[wide] a = Same (x, x, x) }": `t:2:1: node "wide" (Same): expected at most 2 inputs, found 3`,
		"g (float x) => () {\n b, c, d, e = Same (x) }":    "t:2:2: node Same: expected at most 2 outputs, found 4",
	} {
		_, err := Parse([]byte(src), "t", testOps(), Options{Budget: Budget{Ports: 2}})
		if err == nil || err.Error() != want {
			t.Errorf("expected %s, found %v", want, err)
		}
	}
}

func TestParseExternal(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	for _, d := range []string{in, filepath.Join(in, "sub")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "secret"), filepath.Join(in, "w"), filepath.Join(in, "sub", "w")} {
		if err := os.WriteFile(f, make([]byte, 8), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "../secret", "inside": "w", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(in, link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	path := filepath.Join(in, "g.txt")
	for location, want := range map[string]string{
		"w":                                  "",
		"sub/w":                              "",
		"../secret":                          "is outside the folder",
		filepath.Join(dir, "secret"):         "is outside the folder",
		"link":                               "is not a regular file",
		"inside":                             "is not a regular file",
		"up/secret":                          "escapes",
		"sub":                                "is not a regular file",
		"missing":                            "no such file",
		`w", "offset": "4`:                   "has 8 bytes, expected 8 at offset 4",
		`w", "offset": "9000000000000000000`: "has 8 bytes",
	} {
		src := "g () => (a) <float[2] a = [\"location\": \"" + location + "\"]> {}"
		if err := os.WriteFile(path, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path, testOps(), Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: expected %q, found %v", location, want, err)
		}
	}
}

// Where several operators could be meant by a place, the error still says where: the verifier's finding is put at its node.
func TestParseVerifies(t *testing.T) {
	src := "g (float x) => () {\n  y = Same (x)\n  z = Same (x) <graph = s (float y) => () {}>\n}"
	_, err := Parse([]byte(src), "t", testOps(), Options{})
	if err == nil || !strings.Contains(err.Error(), "t:3:") {
		t.Errorf("a subgraph that takes a name again: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(String(sample())))
	f.Add([]byte(onnxText))
	f.Add([]byte(`g (float["a b",?,-1,max(L,2*B)] x) => () <uint4[3] u = {1, 2, 3}, complex64 c = {nan(0x1), -inf}, string s = {"\""}> { [a @ b] , y = "my-domain"."an op" (,) }`))
	f.Add([]byte(parametersText))
	f.Add([]byte(`g (float x) => (y, x) <update "w" = x, parameter float w = {-0.0}, parameter string[1] s = {"a"}, float[0] c = {}> { y = com.test.Vague (w, c) }`))
	ops := testOps()
	f.Fuzz(func(t *testing.T, src []byte) {
		g, err := Parse(src, "t", ops, Options{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		text := String(g)
		back, err := Parse([]byte(text), "t", ops, Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again := String(back); again != text {
			t.Fatalf("printed\n%s\nand again\n%s", text, again)
		}
		ViewString(g)
	})
}

const parametersText = `g (float[3] x) => (float[3] y, float[3] w_new)
<
  parameter float[3] w = {1, 2, 3},
  parameter int64[1] unread = {7},
  update w = w_new,
  float[3] c = {4, 5, 6}
>
{
  y = Same (w)
  w_new = Same (c)
}
`

// TestParameters: they and their updates keep their order, and a text without them is not changed.
func TestParameters(t *testing.T) {
	g, err := Parse([]byte(parametersText), "t", testOps(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := g.Parameter("w")
	if len(g.Parameters) != 2 || w == nil || w.Const != nil || tensor.Data[float32](w.Init)[2] != 3 || g.Nodes[0].Inputs[0] != w {
		t.Errorf("parameters %v", g.Parameters)
	}
	if len(g.Updates) != 1 || g.Updates[0].Parameter != w || g.Updates[0].Output != g.Outputs[1] {
		t.Errorf("updates %v", g.Updates)
	}
	if text := String(g); !strings.HasSuffix(text, parametersText) {
		t.Errorf("printed as\n%s", text)
	}
	for _, want := range []string{"parameter float[3] w = {1, 2, 3}", "update w = w_new"} {
		if text := ViewString(g); !strings.Contains(text, want) {
			t.Errorf("the view lacks %q\n%s", want, text)
		}
	}
}

// TestSelectParameters: patterns make parameters of constants, in subgraphs too.
func TestSelectParameters(t *testing.T) {
	known := testOps()
	const text = `g (float[2] x) => (y) <float[2] "a.w" = {1, 2}, float[2] b = {3, 4}, int64[1] axes = {0}, parameter float p = {1}>
{
  z = Pick (x, axes) y = test.Gen (z, "a.w", b, p) <types = [float[2]], graph = s () => (t) <float[1] "c.w" = {5}> { t = Same ("c.w") }>
}`
	for _, c := range []struct {
		patterns []string
		want     string // names of the parameters, or an error
	}{
		{nil, "p"},
		{[]string{"*"}, "a.w b p c.w"},
		{[]string{"*.w"}, "a.w p c.w"},
		{[]string{"?", "axes"}, "b axes p"},
		{[]string{"p"}, "p"},
		{[]string{"b", "ax*"}, `t: parameters: "ax*": expected floating point numbers`},
		{[]string{"d.w"}, `t: parameters: "d.w": expected a name or a pattern of constants, found none that match; near names: "a.w", "c.w"`},
	} {
		g, err := Parse([]byte(text), "t", known, Options{Parameters: c.patterns})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			var names []string
			for _, v := range g.Parameters {
				names = append(names, v.Name)
			}
			got = strings.Join(names, " ")
			back, err := Parse([]byte(String(g)), "t", known, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := same(g, back); err != nil {
				t.Errorf("%q: %v", c.patterns, err)
			}
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: %s, expected %s", c.patterns, got, c.want)
		}
	}
}

func TestEmptyMeta(t *testing.T) {
	g, err := Parse([]byte(`g () => () {}`), "t", testOps(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Meta["passes"] = "may write here"
}
