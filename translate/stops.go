// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
