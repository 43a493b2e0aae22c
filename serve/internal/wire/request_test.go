package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseRequest(t *testing.T) {
	r, err := ParseRequest([]byte(` { "id":"a\"b", "other": {"x":[1,{"y":"]}"}]},
	"parameters":{"n":18446744073709551615,"m":-3,"f":0.5,"s":"t","b":true},
	"inputs":[{"data":[[1,2],["]",3]],"name":"x","datatype":"FP32","shape":[2,2],"parameters":{"binary_data_size":8},"z":null}],
	"outputs":[{"name":"y","parameters":{"binary_data":true}},{}] } `))
	want := &Request{ID: `a"b`, Parameters: map[string]any{"n": uint64(1<<64 - 1), "m": int64(-3), "f": 0.5, "s": "t", "b": true},
		Inputs: []Input{{Name: "x", Datatype: "FP32", Shape: []int64{2, 2}, Parameters: map[string]any{"binary_data_size": uint64(8)},
			Data: []byte(`[[1,2],["]",3]]`)}},
		Outputs: []Output{{Name: "y", Parameters: map[string]any{"binary_data": true}}, {}}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%v: expected %+v\nfound %+v", err, want, r)
	}
	many := `{"inputs":[` + strings.Repeat("{},", maxItems) + `{}]}`
	for _, bad := range []string{"", "{", "[]", "{}{}", `{"id":1}`, `{"id":"a}`, `{"id" "a"}`, `{"id":}`, `{"id":"a",}`, `{"inputs":{}}`,
		`{"inputs":[{"shape":[1.5]}]}`, `{"inputs":[{"shape":"x"}]}`, `{"inputs":[}`, `{"inputs":[{"data":[1}]}`, `{"parameters":[]}`,
		`{"parameters":{"a":1e999}}`, `{"outputs":[1]}`, `{1:2}`, many, strings.Replace(many, "inputs", "outputs", 1)} {
		if r, err := ParseRequest([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "request: ") {
			t.Errorf("%.60s: became %+v, %v", bad, r, err)
		}
	}
}

// What encoding/json reads, ParseRequest reads in the same way.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"id":"a","inputs":[{"name":"x","shape":[1],"data":[1,"\"]"]}],"outputs":[{"name":"y"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want struct {
			ID     string
			Inputs []struct {
				Name, Datatype string
				Shape          []int64
			}
			Outputs []struct{ Name string }
		}
		got, err := ParseRequest(b)
		if json.Unmarshal(b, &want) != nil || err != nil || strings.ContainsAny(string(b), "IDNODPQSTAK\\ıſ") {
			return // keys of encoding/json may have other cases
		}
		if got.ID != want.ID || len(got.Inputs) != len(want.Inputs) || len(got.Outputs) != len(want.Outputs) {
			t.Fatalf("%s: expected %+v, found %+v", b, want, got)
		}
		for i, in := range got.Inputs {
			if in.Name != want.Inputs[i].Name || fmt.Sprint(in.Shape) != fmt.Sprint(want.Inputs[i].Shape) {
				t.Fatalf("%s: expected %+v, found %+v", b, want, got)
			}
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	text := []byte("[" + strings.Repeat("-0.12345678,", 9999) + "1]")
	for b.Loop() {
		r, err := ParseRequest([]byte(`{"inputs":[{"name":"x","shape":[10000],"datatype":"FP32","data":` + string(text) + `}]}`))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodeJSON(1, r.Inputs[0].Shape, r.Inputs[0].Data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/number")
}
