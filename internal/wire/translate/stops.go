// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import "strings"

// Stops cuts a text before the first stop sequence. The text arrives in pieces. It is used for
// upstreams without stop sequences in their format. The zero value cuts nothing.
type Stops struct {
	// Sequences are the stop sequences.
	Sequences []string
	// Hit is the matched sequence, empty before a match.
	Hit     string
	pending string
}

// Feed takes the next piece and returns the text to forward. A possible beginning of a sequence is
// buffered.
func (s *Stops) Feed(text string) string {
	if s.Hit != "" {
		return ""
	}
	if len(s.Sequences) == 0 {
		return text
	}
	text = s.pending + text
	s.pending = ""
	at := len(text)
	for _, seq := range s.Sequences {
		if i := strings.Index(text, seq); seq != "" && i >= 0 && i < at {
			at, s.Hit = i, seq
		}
	}
	if s.Hit != "" {
		return text[:at]
	}
	// Buffer the longest suffix that may begin a sequence.
	keep := 0
	for _, seq := range s.Sequences {
		for n := min(len(seq)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, seq[:n]) {
				keep = n
				break
			}
		}
	}
	s.pending = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// Rest returns the buffered text at the end of the text.
func (s *Stops) Rest() string {
	rest := s.pending
	s.pending = ""
	return rest
}
