package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Request is the JSON of a request for inference. Data is not decoded.
type Request struct {
	ID         string
	Parameters map[string]any // texts, bools, uint64, int64, float64
	Inputs     []Input
	Outputs    []Output
}

// Input is an input of a request.
type Input struct {
	Name, Datatype string
	Shape          []int64
	Parameters     map[string]any
	Data           []byte // a JSON list; nil: none
}

// Output is an output that a request asks for.
type Output struct {
	Name       string
	Parameters map[string]any
}

// maxItems bounds the inputs and outputs of a request.
const maxItems = 4096

// ParseRequest reads the JSON of a request. It passes over the numbers only once, without decoding them.
func ParseRequest(b []byte) (*Request, error) {
	r := &Request{}
	p := &parser{b: b}
	err := p.object(func(key string) (err error) {
		switch key {
		case "id":
			return p.into(&r.ID)
		case "parameters":
			r.Parameters, err = p.parameters()
			return err
		case "inputs":
			return p.array(func() error {
				if len(r.Inputs) == maxItems {
					return fmt.Errorf("more than %d inputs", maxItems)
				}
				in, err := p.input()
				r.Inputs = append(r.Inputs, in)
				return err
			})
		case "outputs":
			return p.array(func() error {
				if len(r.Outputs) == maxItems {
					return fmt.Errorf("more than %d outputs", maxItems)
				}
				out := Output{}
				err := p.object(func(key string) (err error) {
					switch key {
					case "name":
						return p.into(&out.Name)
					case "parameters":
						out.Parameters, err = p.parameters()
						return err
					}
					_, err = p.value()
					return err
				})
				r.Outputs = append(r.Outputs, out)
				return err
			})
		}
		_, err = p.value()
		return err
	})
	if err == nil && p.next() != 0 {
		err = errors.New("text follows the object")
	}
	if err != nil {
		return nil, fmt.Errorf("request: at byte %d: %w", p.at, err)
	}
	return r, nil
}

// parser goes through JSON. What it passes over is checked when it is decoded.
type parser struct {
	b  []byte
	at int
}

// next returns the next byte that is not space; 0 at the end.
func (p *parser) next() byte {
	for ; p.at < len(p.b); p.at++ {
		if c := p.b[p.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (p *parser) take(c byte) error {
	if found := p.next(); found != c {
		if found == 0 {
			return fmt.Errorf("expected %q, found the end", c)
		}
		return fmt.Errorf("expected %q, found %q", c, found)
	}
	p.at++
	return nil
}

// object calls member for each key, which reads the value.
func (p *parser) object(member func(key string) error) error {
	if err := p.take('{'); err != nil {
		return err
	}
	for first := true; p.next() != '}'; first = false {
		if !first {
			if err := p.take(','); err != nil {
				return err
			}
		}
		var key string
		if p.next() != '"' {
			return errors.New("expected a key")
		}
		if err := p.into(&key); err != nil {
			return err
		}
		if err := p.take(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	p.at++
	return nil
}

// array calls item for each item, which reads it.
func (p *parser) array(item func() error) error {
	if err := p.take('['); err != nil {
		return err
	}
	for first := true; p.next() != ']'; first = false {
		if !first {
			if err := p.take(','); err != nil {
				return err
			}
		}
		if err := item(); err != nil {
			return err
		}
	}
	p.at++
	return nil
}

// value returns the text of the next value.
func (p *parser) value() ([]byte, error) {
	p.next()
	start, depth := p.at, 0
	for p.at < len(p.b) {
		if plain[p.b[p.at]] {
			p.at++
			continue
		}
		switch p.b[p.at] {
		case '"':
			if err := p.text(); err != nil {
				return nil, err
			}
			if depth == 0 {
				return p.b[start:p.at], nil
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return p.scalar(start)
			}
			if depth--; depth == 0 {
				p.at++
				return p.b[start:p.at], nil
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return p.scalar(start)
			}
		}
		p.at++
	}
	return nil, errors.New("the value has no end")
}

// plain are the bytes that do not matter to value.
var plain = func() (out [256]bool) {
	for i := range out {
		out[i] = !strings.ContainsRune("\"[]{}, \n\t\r", rune(i)) || i >= 0x80
	}
	return out
}()

func (p *parser) scalar(start int) ([]byte, error) {
	if start == p.at {
		return nil, errors.New("expected a value")
	}
	return p.b[start:p.at], nil
}

// text passes over a string.
func (p *parser) text() error {
	for p.at++; p.at < len(p.b); p.at++ {
		switch p.b[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			return nil
		}
	}
	return errors.New("the text has no end")
}

// into decodes the next value.
func (p *parser) into(v any) error {
	b, err := p.value()
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// parameters reads an object of texts, numbers and bools.
func (p *parser) parameters() (map[string]any, error) {
	b, err := p.value()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	for name, v := range out {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		var i int64
		var u uint64
		if json.Unmarshal([]byte(n), &u) == nil {
			out[name] = u
		} else if json.Unmarshal([]byte(n), &i) == nil {
			out[name] = i
		} else if out[name], err = n.Float64(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *parser) input() (in Input, err error) {
	err = p.object(func(key string) (err error) {
		switch key {
		case "name":
			return p.into(&in.Name)
		case "datatype":
			return p.into(&in.Datatype)
		case "shape":
			return p.into(&in.Shape)
		case "parameters":
			in.Parameters, err = p.parameters()
			return err
		case "data":
			in.Data, err = p.value()
			return err
		}
		_, err = p.value()
		return err
	})
	return in, err
}
