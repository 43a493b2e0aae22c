package process

import (
	"encoding/json"
	"math"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// around is BertProcessing and RobertaProcessing: a token before the first text, and one behind each.
type around struct {
	first, last Token
	roberta     bool // a token before the second text too, and all type ids are 0
	trim        *trim
}

func parseAround(o *part.Object, x *texts) step {
	o.Need("sep", "cls")
	a := &around{roberta: o.Type == "RobertaProcessing"}
	a.first, a.last = token(o, "cls", x), token(o, "sep", x)
	if a.roberta {
		a.trim = &trim{o.Bool("trim_offsets", true), o.Bool("add_prefix_space", true)}
	}
	return a
}

// token reads a pair of a text and a token.
func token(o *part.Object, key string, x *texts) Token {
	raw := o.Raw(key)
	var pair []json.RawMessage
	var text string
	var id uint32
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &text) != nil ||
		json.Unmarshal(pair[1], &id) != nil || id > math.MaxInt32 {
		o.Fail(key, "expected a text and a token, found %s", part.Short(raw))
	}
	return x.added(id, text)
}

func (a *around) added(pair bool) int {
	switch {
	case !pair:
		return 2
	case a.roberta:
		return 4
	}
	return 3
}

func (a *around) process(list []Encoding, special bool, x *Texts) ([]Encoding, error) {
	if a.roberta {
		if _, err := a.trim.process(list, special, x); err != nil {
			return nil, err
		}
		for _, e := range list {
			setType(e.Tokens, 0)
		}
	}
	if !special {
		return list, nil
	}
	for i := range list {
		list[i].Tokens = a.put(list[i].Tokens, i)
		for k, w := range list[i].Overflow {
			if a.roberta {
				setType(w, 0)
			}
			list[i].Overflow[k] = a.put(w, i)
		}
	}
	return list, nil
}

// put puts the tokens around those of the text i.
func (a *around) put(tokens []Token, i int) []Token {
	out := make([]Token, 0, len(tokens)+2)
	last := a.last
	if i > 0 && !a.roberta {
		last.Type = 1
	}
	switch {
	case i == 0:
		out = append(out, a.first)
	case a.roberta:
		out = append(out, a.last)
	}
	for _, t := range tokens {
		t.Special = false
		out = append(out, t)
	}
	return append(out, last)
}
