package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// mostJSON bounds the bytes of a .json file.
const mostJSON = 1 << 28

func isJSON(file string) bool { return strings.EqualFold(filepath.Ext(file), ".json") }

// readJSON reads the text of a .json file.
func readJSON(file string) (string, error) {
	f, err := files.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Regular(file)
	if err != nil {
		return "", err
	}
	if size > mostJSON {
		return "", fmt.Errorf("%s: file has %d bytes, at most %d are read", file, size, mostJSON)
	}
	text, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff")), nil
}

// decode parses a JSON value with exact numbers.
func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("found %s", clip(text))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("found %s", clip(text))
	}
	return v, nil
}

// mapRows parses maps for a port that the model's file has as a map: {"key": value, …}, or a list of such objects, each
// of which is a row. Keys that the model does not know are ignored, as by the operators that read maps, unless it knows
// none of them.
func mapRows(text string, p runtime.Port, wide bool) (*tensor.Tensor, error) {
	const form = `expected {"key": value, …}, or a list of these`
	want, ok := p.Type.(*ir.TensorType)
	var keys []any
	d := json.NewDecoder(strings.NewReader(p.Keys))
	d.UseNumber()
	if err := d.Decode(&keys); err != nil || !ok {
		return nil, fmt.Errorf("it does not have maps in the model, but %v", p.Type)
	}
	v, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", form, err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	names := make([]string, len(keys))
	known := make(map[string]bool, len(keys))
	for i, k := range keys {
		names[i] = fmt.Sprint(k)
		known[names[i]] = true
	}
	columns := len(names)
	var words []string
	for i, x := range list {
		row, ok := x.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: found %v", form, clip(fmt.Sprint(x)))
		}
		order, err := columnsOf(row, names, known)
		if err != nil {
			return nil, fmt.Errorf("map %d: %w", i, err)
		}
		if i == 0 {
			columns = len(order)
		} else if len(order) != columns {
			return nil, fmt.Errorf("map %d has %d values, map 0 has %d", i, len(order), columns)
		}
		for _, k := range order {
			w, err := mapValue(row, k, want.Elem)
			if err != nil {
				return nil, fmt.Errorf("map %d: key %q: %w", i, k, err)
			}
			words = append(words, w)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: found none", form)
	}
	return elements(words, []int{len(list), columns}, want.Elem, wide)
}

// mapForm returns a map with the first key of a port, as an example, or "" if the port has no maps.
func mapForm(p runtime.Port) string {
	var keys []any
	d := json.NewDecoder(strings.NewReader(p.Keys))
	d.UseNumber()
	if d.Decode(&keys) != nil {
		return ""
	}
	key, value := any(0), "1"
	if len(keys) > 0 {
		key = keys[0]
	}
	if t, ok := ir.AsTensor(p.Type); ok && t.Elem == tensor.String {
		value = `"text"`
	}
	return fmt.Sprintf("{%q:%s}", fmt.Sprint(key), value)
}

// columnsOf returns the keys of a row in the order of the columns: those of the model or, if it has none, the row's own
// numbers.
func columnsOf(row map[string]any, names []string, known map[string]bool) ([]string, error) {
	if len(names) > 0 {
		some := len(row) == 0
		for k := range row {
			some = some || known[k]
		}
		if !some {
			var found []string
			for k := range row {
				found = append(found, k)
			}
			slices.Sort(found)
			return nil, fmt.Errorf("the model knows none of the keys %s; it knows %s", few(found), few(names))
		}
		return names, nil
	}
	var numbers []int64
	for k := range row {
		n, err := strconv.ParseInt(k, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("expected integers as keys, found %q", clip(k))
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	order := make([]string, len(numbers))
	for i, n := range numbers {
		if order[i] = strconv.FormatInt(n, 10); row[order[i]] == nil {
			return nil, fmt.Errorf("expected a key written as %d", n)
		}
	}
	return order, nil
}

// few lists some of the names.
func few(names []string) string {
	const most = 8
	text := fmt.Sprintf("%q", names[:min(len(names), most)])
	if text = strings.Trim(text, "[]"); len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// mapValue returns a value of a map as the text that elements parses. A missing one is zero or empty.
func mapValue(row map[string]any, key string, elem tensor.DType) (string, error) {
	v, ok := row[key]
	if !ok {
		if elem == tensor.String {
			return "", nil
		}
		return "0", nil
	}
	switch v := v.(type) {
	case string:
		if elem == tensor.String {
			return v, nil
		}
	case json.Number:
		if elem != tensor.String {
			return v.String(), nil
		}
	}
	if elem == tensor.String {
		return "", fmt.Errorf("expected a text, found %s", clip(fmt.Sprint(v)))
	}
	return "", fmt.Errorf("expected a number, found %s", clip(fmt.Sprintf("%#v", v)))
}

// named splits a .json file that holds an object of inputs by their names: the text of each. It returns nil for others.
func named(text string, ports []runtime.Port) map[string]string {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil || len(all) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, v := range all {
		if !slices.ContainsFunc(ports, func(p runtime.Port) bool { return p.Name == name }) {
			return nil
		}
		out[name] = string(v)
	}
	return out
}
