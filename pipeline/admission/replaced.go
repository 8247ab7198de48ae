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

// minReplaced is the number of bytes that an edit has to have replaced for its
// call to be shortened.
const minReplaced = 160

// replaced leaves out of a call that has edited a file what it replaced: the
// file does not hold it any more, and no later edit can quote it. It returns nil
// if the call stays. A call goes upstream for the first time together with its
// result, which reports whether the edit was made; until then no provider has
// cached it. A local engine has: what it generated is in its cache, so there
// calls stay as they are.
func replaced(h *content.History, i int) []byte {
	b, s := &h.Blocks[i], &h.States[i]
	if s.Class != sessioncache.ClassEdit || s.Edit != nil || s.Replaced < minReplaced ||
		b.Has(wire.FlagSigned) || thoughtBehind(h, i) {
		return nil
	}
	body := h.View.Bytes(b.Body)
	value := withoutReplaced(body)
	if len(value) == 0 || len(body)-len(value) < stage.MinGain {
		return nil
	}
	return value
}

// thoughtBehind reports whether the model went on thinking behind a call in the same
// message, and so may have bound its thoughts to the call as it made it.
func thoughtBehind(h *content.History, i int) bool {
	_, end := h.Message(i)
	for j := i + 1; j < end; j++ {
		if content.IsThinking(&h.Blocks[j]) {
			return true
		}
	}
	return false
}

// withoutReplaced shortens what the input of a call says it replaced.
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

// dropReplaced shortens the strings of a JSON object that say what an edit replaced.
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

// shortenPatch shortens the runs of lines that a patch takes out of a file.
func shortenPatch(patch string) string {
	var out strings.Builder
	run := 0 // where the lines begin that are taken out
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

// shortenLines keeps the first and the last of some lines, which tell where the
// others stood. It returns the lines as they are if there is little to win.
func shortenLines(text string) string {
	lines := slices.Collect(strings.Lines(text))
	if len(lines) < 3 {
		return text
	}
	first, last := lines[0], lines[len(lines)-1]
	sign := ""
	if strings.HasPrefix(first, "-") { // of a patch
		sign = "-"
	}
	short := fmt.Sprintf("%s%s%s%d lines that this call has replaced]\n%s", first, sign, Note, len(lines)-2, last)
	if len(text)-len(short) < stage.MinGain {
		return text
	}
	return short
}
