package irtext

import "testing"

func TestBegins(t *testing.T) {
	for head, want := range map[string]bool{
		"g (float x) => (float y) {}":            true,
		"# about it\n\n  \"a name\"\t(":          true,
		"<ir_version: 10, opset_import: [\"\" :": true,
		"< > g ()":                               true,
		"<\"ir_version\" :":                      true,
		"":                                       false,
		"# a comment":                            true,
		" \n":                                    false,
		"word":                                   false,
		"two words (":                            false,
		"<!DOCTYPE html>":                        false,
		"<html lang=\"en\">":                     false,
		"<?xml version":                          false,
		"{\"model_type\": \"essm\"}":             false,
		"\"cut off":                              false,
		"\x08\x08:\x80\x01":                      false,
	} {
		if got := Begins([]byte(head)); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
	if text := String(sample()); !Begins([]byte(text)) {
		t.Errorf("the text of a graph is not recognised: %.80q", text)
	}
}
