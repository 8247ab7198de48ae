// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	blanks     = " \t\r\n"
)

// inlineThinking separates a leading <think> block from a text that arrives in pieces. Servers
// without a reasoning parser send reasoning this way. Tags anywhere else stay text.
type inlineThinking struct {
	state   thinkState
	pending string // the possible beginning of a tag, with the white space before it
}

type thinkState uint8

const (
	thinkOff    thinkState = iota // text is forwarded unchanged
	thinkMaybe                    // only white space and the beginning of a tag so far
	thinkOpened                   // after <think>, before the thinking
	thinkInside                   // in the thinking
	thinkBehind                   // after </think>, before the text
)

// feed takes the next piece and returns the output so far.
func (t *inlineThinking) feed(s string) (thinking, text string) {
	if t.state == thinkOff {
		return "", s
	}
	s = t.pending + s
	t.pending = ""
	if t.state == thinkMaybe {
		switch trimmed := strings.TrimLeft(s, blanks); {
		case strings.HasPrefix(trimmed, thinkOpen):
			t.state, s = thinkOpened, trimmed[len(thinkOpen):]
		case strings.HasPrefix(thinkOpen, trimmed):
			t.pending = s
			return "", ""
		default:
			t.state = thinkOff
			return "", s
		}
	}
	if t.state == thinkOpened {
		if s = strings.TrimLeft(s, blanks); s == "" {
			return "", ""
		}
		t.state = thinkInside
	}
	if t.state == thinkInside {
		inside, rest, closed := strings.Cut(s, thinkClose)
		if !closed {
			// The end may begin a tag. White space before the tag is dropped.
			keep := len(strings.TrimRight(s[:len(s)-beginning(s, thinkClose)], blanks))
			t.pending = s[keep:]
			return s[:keep], ""
		}
		thinking, s, t.state = strings.TrimRight(inside, blanks), rest, thinkBehind
	}
	// White space between </think> and the text is dropped.
	if text = strings.TrimLeft(s, blanks); text != "" {
		t.state = thinkOff
	}
	return thinking, text
}

// rest ends the text and returns the buffered part.
func (t *inlineThinking) rest() (thinking, text string) {
	pending, inside := t.pending, t.state == thinkInside
	*t = inlineThinking{}
	if inside {
		return strings.TrimRight(pending, blanks), ""
	}
	return "", pending
}

// beginning returns the length of the longest suffix of s that is a proper prefix of tag.
func beginning(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
