// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal carries encrypted reasoning and the signatures of calls through clients of other
// formats. Only the upstream that wrote them can read them.
package seal

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Sealed is a piece of reasoning that only its upstream can read: a signature, encrypted content,
// or redacted thinking. A client of another format gets it as an opaque string in the member that
// its own format has for such data. The client sends the string back verbatim, and [Open] restores
// the piece for the upstream:
//
//   - anthropic: the signature of a thinking block, or the data of a
//     redacted_thinking block if there is no text to show;
//   - openai_responses: the encrypted_content of a reasoning item;
//   - wire.Gemini: the thoughtSignature of the first functionCall part after the reasoning
//     (the Gemini CLI does not send thought parts again), else of the thought part;
//   - wire.Interactions: the signature of a thought;
//   - openai_chat: the data of an entry of type reasoning.encrypted in the
//     message's reasoning_details, as at OpenRouter.
//
// The signature of a function call of Gemini goes into the call's id instead, see [ID]. Where
// clients take no ids of that length, the signature goes into reasoning before the call.
type Sealed struct {
	// Format is the format of the upstream that wrote it.
	Format wire.Format `json:"llm_cache"`
	// ID is the id of a reasoning item of openai_responses.
	ID string `json:"id,omitempty"`
	// Text is the readable part: the thinking, or the summary.
	Text string `json:"text,omitempty"`
	// Data is the opaque part: a signature, or encrypted content.
	Data string `json:"data,omitempty"`
	// Redacted tells that Data comes from a redacted_thinking block.
	Redacted bool `json:"redacted,omitempty"`
	// Call tells that Data is the signature of the call after the reasoning.
	Call bool `json:"call,omitempty"`
	// Said tells that Data is the signature of the text before the reasoning.
	Said bool `json:"said,omitempty"`
	// Late tells that the reasoning stood after text, for clients that do not keep its place.
	Late bool `json:"late,omitempty"`
}

// Seal returns the opaque string for the client, in standard base64.
func (s Sealed) Seal() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // strings and a bool always marshal
	}
	// Gemini's SDKs expect standard base64 in a signature.
	return base64.StdEncoding.EncodeToString(b)
}

// Open decodes a string that Seal returned. It reports false for all others, such as the
// upstream's own signatures.
func Open(text string) (s Sealed, ok bool) {
	if !strings.HasPrefix(text, wire.SealPrefix) {
		return s, false
	}
	// Google's SDK for Python writes bytes in the URL-safe alphabet.
	b, err := base64.StdEncoding.DecodeString(urlSafe.Replace(text))
	if err != nil || json.Unmarshal(b, &s) != nil || s.Format == "" {
		return Sealed{}, false
	}
	return s, true
}

var urlSafe = strings.NewReplacer("-", "+", "_", "/")

// The separators between a call's id and its signature. A signature in base64 is rewritten in the
// URL-safe alphabet, which ids may use; any other signature is encoded in this alphabet.
const (
	idSignature    = "_sig_"
	idSignatureRaw = "_raw_"
)

// ID returns the id of a call with the call's signature appended. Clients of every format must
// send ids back.
func ID(id, signature string) string {
	if signature == "" {
		return id
	}
	mark, text := idSignatureRaw, base64.RawURLEncoding.EncodeToString([]byte(signature))
	if b, err := base64.StdEncoding.DecodeString(signature); err == nil &&
		base64.StdEncoding.EncodeToString(b) == signature {
		mark, text = idSignature, base64.RawURLEncoding.EncodeToString(b)
	}
	// The length stands last, so that no signature can look like a separator.
	return id + mark + text + "_" + strconv.Itoa(len(text))
}

// OpenID splits a string that [ID] returned into the id and the signature. An id without a
// signature is returned unchanged.
func OpenID(sealed string) (id, signature string) {
	end := strings.LastIndexByte(sealed, '_')
	if end < 0 {
		return sealed, ""
	}
	n, err := strconv.Atoi(sealed[end+1:])
	at := end - n - len(idSignature)
	if err != nil || n <= 0 || at < 0 {
		return sealed, ""
	}
	mark := sealed[at : at+len(idSignature)]
	b, err := base64.RawURLEncoding.DecodeString(sealed[end-n : end])
	switch {
	case err != nil:
	case mark == idSignature:
		return sealed[:at], base64.StdEncoding.EncodeToString(b)
	case mark == idSignatureRaw:
		return sealed[:at], string(b)
	}
	return sealed, ""
}
