package process

import (
	"encoding/json"
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// template puts texts and special tokens in a stated order.
type template struct {
	single, pair []piece
}

// piece is a text, or special tokens.
type piece struct {
	seq    int8 // 0 or 1; -1: special tokens
	typ    uint32
	tokens []Token
}

func parseTemplate(o *part.Object, x *texts) step {
	o.Need("single", "pair", "special_tokens")
	var tokens map[string]struct {
		ID     string
		IDs    []uint32
		Tokens []string
	}
	if raw := o.Raw("special_tokens"); raw != nil {
		if err := json.Unmarshal(raw, &tokens); err != nil {
			o.Fail("special_tokens", "expected tokens with their ids, found %s", part.Short(raw))
		}
	}
	read := func(key string) []piece {
		var all []piece
		for i, raw := range o.List(key) {
			var p struct {
				Sequence, SpecialToken *struct {
					ID     string `json:"id"`
					TypeID uint32 `json:"type_id"`
				}
			}
			where := fmt.Sprintf("%s[%d]", key, i)
			if err := json.Unmarshal(raw, &p); err != nil || (p.Sequence == nil) == (p.SpecialToken == nil) {
				o.Fail(where, "expected a Sequence or a SpecialToken, found %s", part.Short(raw))
				return nil
			}
			if s := p.Sequence; s != nil {
				one := piece{typ: s.TypeID}
				switch {
				case s.ID == "B" && key == "pair":
					one.seq = 1
				case s.ID != "A":
					o.Fail(where, "expected the sequence A, or B in a pair, found %q", s.ID)
				}
				all = append(all, one)
				continue
			}
			t, ok := tokens[p.SpecialToken.ID]
			if !ok {
				o.Fail(where, "expected a key of special_tokens, found %q", p.SpecialToken.ID)
			}
			one := piece{seq: -1}
			for i, id := range t.IDs {
				text := ""
				if i < len(t.Tokens) {
					text = t.Tokens[i]
				}
				k := x.added(id, text)
				k.Type = p.SpecialToken.TypeID
				one.tokens = append(one.tokens, k)
			}
			all = append(all, one)
		}
		return all
	}
	return &template{read("single"), read("pair")}
}

func (t *template) of(pair bool) []piece {
	if pair {
		return t.pair
	}
	return t.single
}

func (t *template) added(pair bool) int {
	n := 0
	for _, p := range t.of(pair) {
		n += len(p.tokens)
	}
	return n
}

func (t *template) process(list []Encoding, special bool, _ *Texts) ([]Encoding, error) {
	if len(list) > 2 {
		return nil, fmt.Errorf("post_processor: TemplateProcessing: expected one or two texts, found the %d parts of "+
			"a template before it", len(list))
	}
	var out []Encoding
	for _, p := range t.of(len(list) == 2) {
		switch {
		case p.seq >= 0:
			// Windows keep their type ids, as in the Rust library.
			e := list[p.seq]
			e.Tokens = append([]Token(nil), e.Tokens...)
			setType(e.Tokens, p.typ)
			out = append(out, e)
		case special:
			out = append(out, Encoding{Tokens: p.tokens})
		}
	}
	return out, nil
}
