package command

import (
	"bytes"
	"fmt"
)

// streamFormats are kinds of files that are given to stream by mistake, by their first bytes.
var streamFormats = []struct{ magic, what, how string }{
	{"RIFF", "a WAV recording", ffmpeg}, {"fLaC", "a FLAC recording", ffmpeg}, {"OggS", "an Ogg recording", ffmpeg},
	{"\x93NUM", "a .npy array", ""}, {"PK\x03\x04", "a zip archive", ""}, {"\x89PNG", "a PNG image", ""},
}

const ffmpeg = ", as ffmpeg -i FILE -f f32le -ac 1 - writes it"

// otherFormat returns an error if the input is a file of another format, or not text where text is expected. Four bytes
// of raw numbers decide only about the former.
func otherFormat(head []byte) error {
	const expected = "expected lines of numbers, or raw float32 with --format f32"
	for _, f := range streamFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return fmt.Errorf("found %s, %s%s", f.what, expected, f.how)
		}
	}
	if len(head) > 4 && bytes.IndexByte(head, 0) >= 0 {
		return fmt.Errorf("found binary data, %s", expected)
	}
	return nil
}
