package pattern

import (
	"strings"
	"sync"
	"unicode"
)

// table returns the ranges of a table of package unicode, with what Unicode 16 changed of it.
func table(name string, t *unicode.RangeTable) []rune {
	var out []rune
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			out = append(out, lo, hi)
			return
		}
		for c := lo; c <= hi; c += stride {
			out = append(out, c, c)
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	if gone := removed[name]; gone != nil {
		out = intersect(normalize(out), negate(gone))
	}
	return normalize(append(out, added[name]...))
}

func union(parts ...[]rune) []rune {
	var all []rune
	for _, p := range parts {
		all = append(all, p...)
	}
	return normalize(all)
}

// unassigned is \p{Cn}: what no other category has, surrogates aside.
var unassigned = sync.OnceValue(func() []rune {
	var all []rune
	for name, t := range unicode.Categories {
		if len(name) == 2 && name != "Cn" && name != "LC" {
			all = append(all, table(name, t)...)
		}
	}
	return negate(normalize(all))
})

var compound = map[string]func() []rune{
	"alpha":       alpha,
	"alnum":       func() []rune { return union(alpha(), category("Nd")) },
	"ascii":       func() []rune { return []rune{0, 0x7F} },
	"blank":       func() []rune { return union(category("Zs"), []rune{'\t', '\t'}) },
	"cntrl":       func() []rune { return category("Cc") },
	"digit":       func() []rune { return category("Nd") },
	"graph":       graph,
	"lower":       func() []rune { return union(category("Ll"), property("Other_Lowercase")) },
	"print":       func() []rune { return union(graph(), category("Zs")) },
	"punct":       func() []rune { return category("P") },
	"space":       func() []rune { return property("White_Space") },
	"upper":       func() []rune { return union(category("Lu"), property("Other_Uppercase")) },
	"xdigit":      func() []rune { return []rune{'0', '9', 'A', 'F', 'a', 'f'} },
	"word":        func() []rune { return union(bracketWord(), []rune{0xB2, 0xB3, 0xB9, 0xB9, 0xBC, 0xBE}) },
	"any":         func() []rune { return []rune{0, lastRune} },
	"cn":          unassigned,
	"c":           func() []rune { return union(category("Cc"), category("Cf"), category("Co"), unassigned()) },
	"cs":          func() []rune { return nil }, // a text has no surrogates
	"lc":          func() []rune { return union(category("Lu"), category("Ll"), category("Lt")) },
	"punctuation": func() []rune { return category("P") },
	"assigned":    func() []rune { return negate(unassigned()) },
}

// brackets are the POSIX brackets that differ from the property of their name.
var brackets = map[string]func() []rune{
	"punct": func() []rune { return union(category("P"), category("S")) },
	"word":  bracketWord,
}

func bracketWord() []rune { return union(alpha(), category("M"), category("Nd"), category("Pc")) }

func alpha() []rune { return union(category("L"), category("Nl"), property("Other_Alphabetic")) }

func graph() []rune {
	return intersect(negate(union(property("White_Space"), category("Cc"))), negate(unassigned()))
}

func category(name string) []rune { return table(name, unicode.Categories[name]) }
func property(name string) []rune { return table(name, unicode.Properties[name]) }

// longNames are the names of categories in full; scripts and properties have them in package unicode.
var longNames = map[string]string{
	"other": "C", "control": "Cc", "format": "Cf", "unassigned": "Cn", "privateuse": "Co", "surrogate": "Cs",
	"letter": "L", "casedletter": "LC", "lowercaseletter": "Ll", "modifierletter": "Lm", "otherletter": "Lo",
	"titlecaseletter": "Lt", "uppercaseletter": "Lu", "mark": "M", "combiningmark": "M", "spacingmark": "Mc",
	"enclosingmark": "Me", "nonspacingmark": "Mn", "number": "N", "decimalnumber": "Nd", "letternumber": "Nl",
	"othernumber": "No", "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "closepunctuation": "Pe",
	"finalpunctuation": "Pf", "initialpunctuation": "Pi", "otherpunctuation": "Po", "openpunctuation": "Ps",
	"symbol": "S", "currencysymbol": "Sc", "modifiersymbol": "Sk", "mathsymbol": "Sm", "othersymbol": "So",
	"separator": "Z", "lineseparator": "Zl", "paragraphseparator": "Zp", "spaceseparator": "Zs",
	"alphabetic": "alpha", "uppercase": "upper", "lowercase": "lower", "whitespace": "space",
}

// names finds tables of package unicode by their folded names.
var names = sync.OnceValue(func() map[string]func() []rune {
	m := make(map[string]func() []rune)
	for name, t := range unicode.Properties {
		m[foldName(name)] = func() []rune { return table(name, t) }
	}
	for name, t := range unicode.Scripts {
		m[foldName(name)] = func() []rune { return table(name, t) }
	}
	for name, t := range unicode.Categories {
		if name != "Cn" && name != "LC" {
			m[foldName(name)] = func() []rune { return table(name, t) }
		}
	}
	for name, f := range compound {
		m[name] = f
	}
	for long, short := range longNames {
		m[long] = m[foldName(short)]
	}
	return m
})

func foldName(s string) string {
	return strings.Map(func(c rune) rune {
		if c == ' ' || c == '-' || c == '_' {
			return -1
		}
		return unicode.ToLower(c)
	}, s)
}

// named returns the set of a property, or nil if the name is not known. Callers do not change it.
func (p *parser) named(name string) *set {
	key := foldName(name)
	if s, ok := p.sets[key]; ok {
		return s
	}
	f := names()[key]
	if f == nil {
		return nil
	}
	return p.keep(key, f())
}

func (p *parser) bracket(name string) *set {
	f, ok := brackets[name]
	if !ok {
		if _, ok = compound[name]; !ok || len(name) < 4 || name == "assigned" || name == "punctuation" {
			return nil
		}
		return p.named(name)
	}
	key := "[" + name
	if s, ok := p.sets[key]; ok {
		return s
	}
	return p.keep(key, f())
}

func (p *parser) keep(key string, r []rune) *set {
	s := newSet(r)
	p.charge(len(s.r))
	s.seal()
	p.sets[key] = s
	return s
}

// wordSet is \w as \b sees it.
var wordSet = sync.OnceValue(func() *set {
	s := newSet(compound["word"]())
	s.seal()
	return s
})
