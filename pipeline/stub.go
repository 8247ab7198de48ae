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

package pipeline

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// A stub stands in a frame of its own, so that neither a model nor a program
// takes it for content:
//
//	[[llm_cache:folded 1f3a9c27: Read /src/a.go, 300 lines, 9041 chars. llm_cache_expand returns it.]]
const (
	stubFrame = "[[llm_cache:folded "
	stubID    = 8 // hexadecimal digits
)

// stubName is how a block is named in its stub: by a keyed hash, so that the
// name means something in its own conversation only.
func (f *frame) stubName(i int) string {
	first := f.view.First()
	mac := f.session.MAC(first[:], f.blocks[i].Hash[:])
	return hex.EncodeToString(mac[:stubID/2])
}

// back says how the model gets the text of a stub.
func (f *frame) back(i int) string {
	switch {
	case f.expand != expandNone:
		return ExpandTool + " returns it."
	case f.callOf(i) >= 0:
		return "Run the call again to see it."
	}
	return "It is gone."
}

// stub says what stood in a block and how to get it back.
func (f *frame) stub(i, preview int) string {
	text := unheaded(f.text(i))
	what := "tool result"
	if j := f.callOf(i); j >= 0 {
		call := &f.blocks[j]
		what = f.view.Text(call.Name)
		if a := argument(inputOf(f.view.Bytes(call.Body))); a != "" {
			what += " " + clip(strings.Join(strings.Fields(a), " "), 120)
		}
	}
	// What a call says must not end the frame.
	what = strings.ReplaceAll(what, "]]", "] ]")
	head := fmt.Sprintf("%s%s: %s, %d lines, %d chars. %s]]",
		stubFrame, f.stubName(i), what, countLines(text), utf8.RuneCountInString(text), f.back(i))
	return strings.Join(append([]string{head}, headLines(text, preview, 100)...), "\n")
}

// inputStub stands for one long string in the input of a call, or for lines of
// a patch in it.
func inputStub(name, s string) string {
	return fmt.Sprintf("%s%s: %d lines, %d chars]]", stubFrame, name, countLines(s), utf8.RuneCountInString(s))
}

// folded tells whether a block has a stub, or is one.
func (f *frame) folded(i int) bool {
	e := f.states[i].Edit
	return e != nil && (e.Stage == stagePrune || e.Stage == stageInputs || e.Stage == stageReplaced)
}

// foldedAs finds the folded block of a name, -1 if there is none in the request.
func (f *frame) foldedAs(name string) int {
	if len(name) != stubID {
		return -1
	}
	for i := range f.blocks {
		if f.folded(i) && f.stubName(i) == name {
			return i
		}
	}
	return -1
}

// original is the text of a folded block, as the client has it: of a tool result
// its text, of a call its whole input.
func (f *frame) original(i int) string {
	b := &f.blocks[i]
	if b.Kind != wire.KindToolUse {
		return verbatim(f.view, b)
	}
	input := f.view.Bytes(b.Body)
	if input[0] == '"' { // OpenAI: JSON text in a string, or free text
		return gjson.ParseBytes(input).Str
	}
	return string(input)
}

// partOf finds the nth of the long strings in the input of a call.
func partOf(input, part string) (found string, ok bool) {
	n, err := strconv.Atoi(part)
	at := 0
	longStrings(gjson.Parse(input), 0, func(_ string, x gjson.Result) {
		if at++; err == nil && at == n {
			found, ok = x.Str, true
		}
	})
	return found, ok
}

// stubNames returns the names in the stubs that a text holds.
func stubNames(text string) (names []string) {
	for {
		_, rest, ok := strings.Cut(text, stubFrame)
		if !ok {
			return names
		}
		text = rest
		end := strings.IndexFunc(rest, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'f') && r != '.'
		})
		if end >= stubID {
			names = append(names, rest[:end])
		}
	}
}
