// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Tokens for a hundred characters, by kind: least squares fits of the growth of billed prompts on the added
// characters, in recorded conversations of coding agents. Text measured 0.25 to 0.29 where it was a fair part of the
// additions, tool inputs 0.28 to 0.35, tool results 0.31 to 0.35, thinking 0.29 to 0.54 by its text and 0.19 to 0.20
// by its signature, which carries the whole where the text is a summary. Definitions of tools and system prompts are
// prose and JSON, rare in the records; 0.27 is between the two.
const (
	perCentText      = 29
	perCentTool      = 33
	perCentSignature = 19
	perCentFixed     = 27

	framing = 4 // around each block
	// tokensImage is near the 1,600 at which the Claude API scales images down. Sizes are not decoded.
	tokensImage = 1500
	// pageBytes is the usual size of one page of a document in base64. A page counts like an image.
	pageBytes = 64 << 10
)

// Tokens estimates how many tokens a block of a view takes in the prompt. The
// estimate depends on the block's meaning only: not on cache markers, not on
// whether a lone text stands as a string or in an array, not on how characters
// are escaped. It is no less than 1.
func Tokens(v *wire.View, b *wire.Block) int {
	if b.Kind == wire.KindProgram {
		// "Tool results from programmatic calls do not count toward your input/output
		// token usage" (Claude docs, programmatic tool calling).
		return 1
	}
	n := framing + content(v, b)
	if b.Has(wire.FlagSigned) && b.Kind != wire.KindReasoning { // the thought comes back in it
		n += len(thoughtSignature(v, b)) * perCentSignature / 100
	}
	if b.Has(wire.FlagMedia) && v.Traits().MediaBesideResult { // beside the text, not in it
		n += tokensImage
	}
	return n
}

// counts caches the tokens of blocks: a conversation brings nearly all of its blocks with each request.
type counts map[counted]int32

type counted struct {
	hash    wire.Hash
	section wire.Section
	role    wire.Role
	format  wire.Format
}

// maxCounts is 2 MB or so.
const maxCounts = 1 << 16

func (c counts) of(v *wire.View, b *wire.Block) int {
	if c == nil || b.Hash.IsZero() {
		return Tokens(v, b)
	}
	k := counted{b.Hash, b.Section, b.Role, v.Format}
	if n, ok := c[k]; ok {
		return int(n)
	}
	n := Tokens(v, b)
	if len(c) >= maxCounts {
		// Cheaper than an order of use: the next request fills it again.
		clear(c)
	}
	c[k] = int32(n)
	return n
}

func content(v *wire.View, b *wire.Block) int {
	body := b.Body.Of(v.Raw)
	switch b.Kind {
	case wire.KindText:
		if b.Role == wire.RoleSystem || b.Section == wire.SectionSystem {
			return chars(body) * perCentFixed / 100
		}
		return chars(body) * perCentText / 100
	case wire.KindThinking:
		n := chars(body) * perCentText / 100
		// Reasoning in a member of the message comes without a signature.
		if b.Has(wire.FlagMember) {
			return n
		}
		// A summary is shorter than the thought, but the signature carries the whole.
		return max(n, len(signature(v, b))*perCentSignature/100)
	case wire.KindRedactedThinking:
		return len(body) * perCentSignature / 100
	case wire.KindReasoning:
		s := b.Span.Of(v.Raw)
		for _, name := range [...]string{"encrypted_content", "signature"} {
			if sealed := gjson.GetBytes(s, name).Str; sealed != "" {
				return len(sealed) * perCentSignature / 100
			}
		}
		return chars(s) * perCentText / 100
	case wire.KindToolUse:
		return (chars(body) + b.Name.Len()) * perCentTool / 100
	case wire.KindToolResult:
		return parts(body, perCentTool)
	case wire.KindImage:
		return tokensImage
	case wire.KindDocument:
		return document(unmarked(v, b))
	case wire.KindToolDef:
		return chars(unmarked(v, b)) * perCentFixed / 100
	case wire.KindOther, wire.KindServerTool:
	}
	s := unmarked(v, b)
	switch gjson.GetBytes(s, "type").Str {
	case "image_url", "input_image":
		return tokensImage
	}
	return chars(s) * perCentTool / 100
}

func signature(v *wire.View, b *wire.Block) string {
	if b.Kind == wire.KindRedactedThinking {
		return v.Text(b.Body)
	}
	if b.Has(wire.FlagMember) {
		return ""
	}
	// It comes after the text in all answers, and has nothing to decode.
	if rest := v.Raw[max(b.Body.End, b.Span.Start):b.Span.End]; len(rest) > 0 {
		if _, value, ok := bytes.Cut(rest, []byte(`"signature":"`)); ok {
			if end := bytes.IndexByte(value, '"'); end >= 0 && bytes.IndexByte(value[:end], '\\') < 0 {
				return string(value[:end])
			}
		}
	}
	return gjson.GetBytes(b.Span.Of(v.Raw), "signature").Str
}

func parts(body []byte, perCent int) int {
	if len(body) == 0 || body[0] != '[' {
		return chars(body) * perCent / 100
	}
	texts, media := 0, 0
	gjson.ParseBytes(body).ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "text", "input_text", "":
			texts += chars([]byte(part.Get("text").Raw))
		case "image", "image_url", "input_image":
			media += tokensImage
		case "document", "input_file":
			media += document([]byte(part.Raw))
		default:
			texts += chars([]byte(part.Raw))
		}
		return true
	})
	return texts*perCent/100 + media
}

func document(s []byte) int {
	for _, name := range [...]string{"file_data", "data"} {
		if file := gjson.GetBytes(s, name).Str; file != "" {
			return (len(file)/pageBytes + 1) * tokensImage
		}
	}
	source := gjson.GetBytes(s, "source")
	switch source.Get("type").Str {
	case "base64":
		return (len(source.Get("data").Str)/pageBytes + 1) * tokensImage
	case "text":
		return chars([]byte(source.Get("data").Raw)) * perCentText / 100
	case "content":
		return parts([]byte(source.Get("content").Raw), perCentText)
	}
	return tokensImage // by URL or file id: one page
}

// chars counts the decoded characters of a JSON value.
func chars(s []byte) int {
	n := 0
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return n + utf8.RuneCount(s)
		}
		n += utf8.RuneCount(s[:i])
		// An escape is one character.
		width := 2
		if s[i+1] == 'u' {
			width = 6
			if i+2 < len(s) && (s[i+2] == 'd' || s[i+2] == 'D') && i+3 < len(s) && s[i+3]|0x20 >= 'c' {
				n-- // the second half of a pair
			}
		}
		n++
		s = s[min(i+width, len(s)):]
	}
}

// unmarked returns a block without its cache_control member, which clients move from turn to turn.
func unmarked(v *wire.View, b *wire.Block) []byte {
	s := b.Span.Of(v.Raw)
	if b.Marker.Empty() {
		return s
	}
	from, to := int(b.Marker.Start-b.Span.Start), int(b.Marker.End-b.Span.Start)
	from = bytes.LastIndexByte(s[:from], ':')
	if from < 0 {
		return s
	}
	from = bytes.LastIndex(s[:from], []byte(`"cache_control"`))
	if from < 0 {
		return s
	}
	head := bytes.TrimRight(s[:from], " \t\r\n")
	tail := bytes.TrimLeft(s[to:], " \t\r\n")
	// One of the two commas around the member goes with it.
	if bytes.HasSuffix(head, []byte(",")) {
		head, tail = head[:len(head)-1], s[to:]
	} else {
		tail = bytes.TrimLeft(bytes.TrimPrefix(tail, []byte(",")), " \t\r\n")
		head = s[:from]
	}
	return append(append(make([]byte, 0, len(head)+len(tail)), head...), tail...)
}
