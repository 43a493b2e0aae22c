package checkpoint

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/internal/spell"
)

// section reads one mapping of a configuration. It keeps the first error, so a conversion checks once. Every key must
// be read, or be known to be irrelevant for inference.
type section struct {
	path  string // with dots, for messages
	m     map[string]any
	known []string
	log   *log
}

// log is shared by the sections of one configuration.
type log struct {
	notes []string
	err   error
}

func (l *log) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

func (l *log) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

func (s *section) key(key string) string {
	if s.path == "" {
		return key
	}
	return s.path + "." + key
}

// get returns the value of a key, and whether the key is present.
func (s *section) get(key string) (any, bool) {
	s.known = append(s.known, key)
	v, ok := s.m[key]
	if text, isText := v.(string); isText && (strings.Contains(text, "${") || text == "???") {
		s.log.fail("%s: found %.60q, a reference that was never resolved", s.key(key), text)
	}
	return v, ok
}

// set returns the value of a key, and false if it is absent or null.
func (s *section) set(key string) (any, bool) {
	v, ok := s.get(key)
	return v, ok && v != nil
}

func (s *section) wrong(key, want string, v any) {
	s.log.fail("%s: expected %s, found %s", s.key(key), want, show(v))
}

// show formats a value for messages.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%.60q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case map[string]any:
		return "a mapping"
	}
	return torchfile.Describe(v)
}

// defaulted returns the released code's default for an absent key, and notes it.
func defaulted[T any](s *section, key string, def T) T {
	s.log.note("%s: is absent, the released code's default %v was taken", s.key(key), def)
	return def
}

func (s *section) bool(key string, def bool) bool {
	v, ok := s.set(key)
	if !ok {
		return defaulted(s, key, def)
	}
	b, ok := v.(bool)
	if !ok {
		s.wrong(key, "true or false", v)
	}
	return b
}

// float reads a number. It accepts text such as 1e-4, which is not a number in YAML 1.1.
func (s *section) float(key string, def float64) float64 {
	switch v, ok := s.set(key); v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case string:
		if x, err := strconv.ParseFloat(v, 64); err == nil {
			return x
		}
		s.wrong(key, "a number", v)
	default:
		if ok {
			s.wrong(key, "a number", v)
		}
	}
	return defaulted(s, key, def)
}

// int reads an integer. ok is false if it is absent or null.
func (s *section) int(key string) (n int, ok bool) {
	v, ok := s.set(key)
	if !ok {
		return 0, false
	}
	switch v := v.(type) {
	case int64:
		return int(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), true
		}
	}
	s.wrong(key, "an integer", v)
	return 0, false
}

// same checks an integer, if it is present, against the value that follows from the tensors.
func (s *section) same(key string, want int, what string) {
	if n, ok := s.int(key); ok && n != want {
		s.log.fail("%s: is %d, but the tensors have %d %s", s.key(key), n, want, what)
	}
}

// only refuses all integers but one.
func (s *section) only(key string, want int, why string) {
	if n, ok := s.int(key); ok && n != want {
		s.log.fail("%s: is %d, expected %d or null: %s", s.key(key), n, want, why)
	}
}

// text reads a string. ok is false if the key is absent. Null is "".
func (s *section) text(key string) (text string, ok bool) {
	v, ok := s.get(key)
	if !ok || v == nil {
		return "", ok
	}
	text, isText := v.(string)
	if !isText {
		s.wrong(key, "a string", v)
	}
	return text, true
}

// choice reads one of a list of strings, or returns def for an absent key.
func (s *section) choice(key, def string, list []string) string {
	text, ok := s.text(key)
	if !ok || text == "" {
		return defaulted(s, key, def)
	}
	if !slices.Contains(list, text) {
		s.wrong(key, "one of "+strings.Join(list, ", "), text)
	}
	return text
}

// ignore notes keys that are irrelevant for inference.
func (s *section) ignore(keys ...string) {
	s.known = append(s.known, keys...)
	for _, key := range keys {
		if _, ok := s.m[key]; ok {
			s.log.note("%s: irrelevant for inference, dropped", s.key(key))
		}
	}
}

// sub returns the section under a key, or nil if it is absent or null. A list of one item stands for the item, and a
// string for a mapping with that _name_, as in the released code.
func (s *section) sub(key string) *section {
	v, ok := s.set(key)
	if !ok {
		return nil
	}
	if list, ok := v.([]any); ok && len(list) == 1 {
		v = list[0]
	}
	sub := &section{path: s.key(key), log: s.log}
	switch v := v.(type) {
	case string:
		sub.m = map[string]any{"_name_": v}
	case map[string]any:
		sub.m = v
	default:
		s.wrong(key, "a mapping", v)
	}
	return sub
}

// done refuses keys that were not read.
func (s *section) done() {
	for _, key := range slices.Sorted(maps.Keys(s.m)) {
		if !slices.Contains(s.known, key) {
			hint := "; remove it if it does not change the model's outputs"
			if near := spell.Close(key, s.known); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			s.log.fail("%s: unknown key, which may matter%s", s.key(fmt.Sprintf("%.60s", key)), hint)
		}
	}
}
