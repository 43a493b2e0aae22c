package data

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"testing"
)

// FuzzFields compares the fields of a table with those of encoding/csv.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"a,b\n\"c\n\"\"\",d\n", "1,2,\n\n,", "\"\"\n\"", "a\"b,c\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.ContainsAny(b, "\r\ufeff") {
			return // encoding/csv turns \r\n into \n also in quotes
		}
		r := csv.NewReader(bytes.NewReader(b))
		r.FieldsPerRecord = -1
		fields := newFields(b, ',')
		for {
			want, wantErr := r.Read()
			row, line, err := fields.next()
			if wantErr == io.EOF && (err != nil || len(row) > 0) {
				t.Fatalf("expected the end, found %q, %v", row, err)
			}
			if err != nil || wantErr != nil {
				if err != nil && wantErr == nil {
					t.Fatalf("error %v, encoding/csv reads %q", err, want)
				}
				return // encoding/csv refuses quotes within fields, too
			}
			if at, _ := r.FieldPos(0); at != line {
				t.Fatalf("row %q is in line %d, found %d", want, at, line)
			}
			if !slices.EqualFunc(row, want, func(a []byte, b string) bool { return string(a) == b }) {
				t.Fatalf("%q, expected %q", row, want)
			}
		}
	})
}

// FuzzTable checks that any table is refused, or gives samples as its specification says.
func FuzzTable(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n3,4\n"), byte(0))
	f.Add([]byte("1,2,NaN\n3,4,5\n"), byte(3))
	f.Add([]byte("text,b\n\"x\",2\n"), byte(4))
	f.Fuzz(func(t *testing.T, b []byte, bits byte) {
		o := TableOptions{Label: "-1", NoHeader: bits&1 > 0, Steps: int(bits >> 1 & 1)}
		if bits&4 > 0 {
			o.Text, o.Steps = "0", 0
		}
		if bits&8 > 0 {
			o.Label, o.Targets = "", []string{"0", "-1"}
		}
		if set, err := readTable(t.Context(), b, o); err == nil {
			show(t, set)
		}
	})
}

// FuzzIDX checks that any file is refused, or gives a tensor with all its bytes.
func FuzzIDX(f *testing.F) {
	f.Add([]byte(idx(8, "\x01\x02", 2)))
	f.Add([]byte(idx(0x0e, "\x01\x02\x03\x04\x05\x06\x07\x08", 1, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := parseIDX(b); err == nil && len(x.Bytes()) != len(b)-4-4*x.Rank() {
			t.Fatalf("%s of %d bytes", x, len(b))
		}
	})
}

// FuzzCIFAR checks that any file is refused, or gives pictures with labels in range. The pictures are small.
func FuzzCIFAR(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\x04\x05\x06\x07\x08"), false)
	f.Fuzz(func(t *testing.T, b []byte, gray bool) {
		p := &pictures{height: 1, width: 2, rgb: true, gray: gray, classes: numbered(7)}
		if err := p.records(b, []int{5, 7}, 1); err == nil {
			show(t, p)
		}
	})
}

// FuzzSeries checks that any .ts file is refused, or gives samples as its specification says.
func FuzzSeries(f *testing.F) {
	f.Add([]byte("@timeStamps false\n@classLabel true a b\n@data\n1,2:3,?:a\n"))
	f.Add([]byte("@dimensions 2\n@seriesLength 2\n@targetLabel true\n@data\n1,2:3,4:0.5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &series{memory: memory{spec: Spec{Inputs: 1}}}
		if err := s.read(b); err == nil {
			show(t, &s.memory)
		}
	})
}
