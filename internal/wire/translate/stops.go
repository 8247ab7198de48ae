// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import "strings"

// Stops cuts a text that arrives in pieces before the first of some stop
// sequences, for upstreams whose format has none. The zero value cuts nothing.
type Stops struct {
	// Sequences are the stop sequences.
	Sequences []string
	// Hit is the sequence that was found, empty before.
	Hit  string
	held string
}

// Feed takes the next piece and returns what can be passed on by now. Text
// that may be the beginning of a sequence is held back.
func (s *Stops) Feed(text string) string {
	if s.Hit != "" {
		return ""
	}
	if len(s.Sequences) == 0 {
		return text
	}
	text = s.held + text
	s.held = ""
	at := len(text)
	for _, seq := range s.Sequences {
		if i := strings.Index(text, seq); seq != "" && i >= 0 && i < at {
			at, s.Hit = i, seq
		}
	}
	if s.Hit != "" {
		return text[:at]
	}
	keep := 0
	for _, seq := range s.Sequences {
		for n := min(len(seq)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, seq[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// Rest returns what was held back, once the text is at its end.
func (s *Stops) Rest() string {
	rest := s.held
	s.held = ""
	return rest
}
