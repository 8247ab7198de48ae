// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// minReplaced is the minimum number of replaced bytes for a call to be shortened.
const minReplaced = 160

// replaced removes the replaced text from the call of an edit. It returns nil if the call stays
// unchanged.
func replaced(h *content.History, i int) []byte {
	b, s := &h.Blocks[i], &h.States[i]
	if s.Class != sessioncache.ClassEdit || s.Edit != nil || s.Replaced < minReplaced ||
		b.Has(wire.FlagSigned) || thoughtBehind(h, i) {
		return nil
	}
	body := h.View.Bytes(b.Body)
	// The file does not contain this text any more, and no later edit can quote it.
	value := withoutReplaced(body)
	if len(value) == 0 || len(body)-len(value) < stage.MinGain {
		return nil
	}
	return value
}

// thoughtBehind reports whether thinking follows a call in its message. That thinking may be bound
// to the original call.
func thoughtBehind(h *content.History, i int) bool {
	_, end := h.Message(i)
	for j := i + 1; j < end; j++ {
		if h.Blocks[j].IsThinking() {
			return true
		}
	}
	return false
}

// withoutReplaced shortens the replaced text in a call's input.
func withoutReplaced(input []byte) []byte {
	if len(input) == 0 || input[0] != '"' { // OpenAI: JSON text in a string, or a patch
		return dropReplaced(input)
	}
	text := gjson.ParseBytes(input).Str
	if content.IsPatch(text) {
		return content.Quote(shortenPatch(text))
	}
	return content.Quote(string(dropReplaced([]byte(text))))
}

// dropReplaced shortens the members of a JSON object with the text that an edit replaced.
func dropReplaced(object []byte) []byte {
	out := make([]byte, 0, len(object))
	at := 0
	content.LongStrings(gjson.ParseBytes(object), 0, func(key string, x gjson.Result) {
		text := x.Str
		switch {
		case x.Index < at:
			return
		case content.IsReplaced(key):
			text = shortenLines(text)
		case content.IsPatch(text):
			text = shortenPatch(text)
		}
		if len(text) < len(x.Str) {
			out = append(append(out, object[at:x.Index]...), content.Quote(text)...)
			at = x.Index + len(x.Raw)
		}
	})
	return append(out, object[at:]...)
}

// shortenPatch shortens the runs of removed lines in a patch.
func shortenPatch(patch string) string {
	var out strings.Builder
	run := 0 // start of the removed lines
	at := 0
	for line := range strings.Lines(patch) {
		if !strings.HasPrefix(line, "-") {
			out.WriteString(shortenLines(patch[run:at]))
			out.WriteString(line)
			run = at + len(line)
		}
		at += len(line)
	}
	out.WriteString(shortenLines(patch[run:]))
	return out.String()
}

// shortenLines keeps the first and the last line, which show the place of the others. It returns
// the lines unchanged if that saves little.
func shortenLines(text string) string {
	lines := slices.Collect(strings.Lines(text))
	if len(lines) < 3 {
		return text
	}
	first, last := lines[0], lines[len(lines)-1]
	sign := ""
	if strings.HasPrefix(first, "-") { // in a patch
		sign = "-"
	}
	short := fmt.Sprintf("%s%s%s%d lines that this call has replaced]\n%s", first, sign, Note, len(lines)-2, last)
	if len(text)-len(short) < stage.MinGain {
		return text
	}
	return short
}
