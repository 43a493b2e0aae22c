package model

import "fmt"

// wordLevel has a token for each piece that it knows, and one for all others.
type wordLevel struct {
	*Vocab
	unknown string
}

func parseWordLevel(o object) (Model, error) {
	m := &wordLevel{}
	var err error
	if m.unknown, err = o.str("unk_token", "<unk>"); err != nil {
		return nil, err
	}
	if m.Vocab, err = o.vocab(); err != nil {
		return nil, err
	}
	m.index(true)
	return m, o.done()
}

func (m *wordLevel) Tokenize(out []Token, piece string, _ bool, _ *Scratch) ([]Token, error) {
	id, ok := m.lookup(piece)
	if !ok {
		if id, ok = m.lookup(m.unknown); !ok {
			return out, unknownError(piece, m.unknown)
		}
	}
	return append(out, Token{ID: id, End: int32(len(piece))}), nil
}

func (m *wordLevel) Bytes() bool                       { return false }
func (m *wordLevel) Lookup(text string) (uint32, bool) { return m.lookup(text) }
func (m *wordLevel) Text(id uint32) (string, bool)     { return m.token(id) }
func (m *wordLevel) Size() (count, most int)           { return m.size(), m.most }

// unknownError says that a piece has no token, and neither has the token for unknown ones.
func unknownError(piece, unknown string) error {
	if len(piece) > 40 {
		piece = piece[:40]
	}
	if unknown == "" {
		return fmt.Errorf("%q has no token, and the model has none for unknown text", piece)
	}
	return fmt.Errorf("%q has no token, and the token %q for unknown text is not in the vocabulary", piece, unknown)
}
