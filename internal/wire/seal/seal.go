// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal carries what only the upstream that wrote it can read through clients of other formats:
// reasoning, and the signatures of calls.
package seal

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Sealed is a piece of reasoning that only the upstream it came from can read:
// a signature, encrypted content, or redacted thinking. Clients of another
// format get it as one opaque string in the place where their own format has
// one, hand it back verbatim, and it is opened again on the way up:
//
//   - anthropic: the signature of a thinking block, or the data of a
//     redacted_thinking block if there is no text to show;
//   - openai_responses: the encrypted_content of a reasoning item;
//   - wire.Gemini: the thoughtSignature of the first functionCall part behind it (the
//     Gemini CLI does not send thought parts again), else of the thought part;
//   - wire.Interactions: the signature of a thought;
//   - openai_chat: the data of an entry of type reasoning.encrypted in the
//     message's reasoning_details, as OpenRouter has it.
//
// The signature of a function call of Gemini goes into the call's id instead,
// see [ID], or, where clients take no ids of that length, into reasoning in front
// of the call.
type Sealed struct {
	// Format is the format of the upstream that wrote it.
	Format wire.Format `json:"llm_cache"`
	// ID is the id of a reasoning item of openai_responses.
	ID string `json:"id,omitempty"`
	// Text is the readable part: the thinking, or the summary.
	Text string `json:"text,omitempty"`
	// Data is the opaque part: a signature, or encrypted content.
	Data string `json:"data,omitempty"`
	// Redacted tells that Data is that of a redacted_thinking block.
	Redacted bool `json:"redacted,omitempty"`
	// Call tells that Data is the signature of the call behind it.
	Call bool `json:"call,omitempty"`
	// Said tells that Data is the signature of the text in front of it.
	Said bool `json:"said,omitempty"`
	// Late tells that it stood behind text, for clients that do not keep its place.
	Late bool `json:"late,omitempty"`
}

// Prefix is how every sealed string begins: `{"llm_cache"` in base64.
const Prefix = "eyJsbG1fY2FjaGUi"

// Seal returns the string to hand to the client: standard base64, which is what
// Gemini's SDKs expect of a signature.
func (s Sealed) Seal() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // strings and a bool always marshal
	}
	return base64.StdEncoding.EncodeToString(b)
}

// Open opens a string that Seal returned, and false for all others, such as
// the upstream's own signatures.
func Open(text string) (s Sealed, ok bool) {
	if !strings.HasPrefix(text, Prefix) {
		return s, false
	}
	// Google's SDK for Python writes bytes in the other alphabet.
	b, err := base64.StdEncoding.DecodeString(urlSafe.Replace(text))
	if err != nil || json.Unmarshal(b, &s) != nil || s.Format == "" {
		return Sealed{}, false
	}
	return s, true
}

var urlSafe = strings.NewReplacer("-", "+", "_", "/")

// The marks behind which a call's id holds a signature: as base64 that was
// rewritten in the alphabet that ids may use, or as any bytes in that alphabet.
// The length stands last, so that no signature can look like a mark.
const (
	idSignature    = "_sig_"
	idSignatureRaw = "_raw_"
)

// ID returns the id of a call with the signature that the upstream put on
// the call. Ids are the one thing that clients of every format must hand back.
func ID(id, signature string) string {
	if signature == "" {
		return id
	}
	mark, text := idSignatureRaw, base64.RawURLEncoding.EncodeToString([]byte(signature))
	if b, err := base64.StdEncoding.DecodeString(signature); err == nil && base64.StdEncoding.EncodeToString(b) == signature {
		mark, text = idSignature, base64.RawURLEncoding.EncodeToString(b)
	}
	return id + mark + text + "_" + strconv.Itoa(len(text))
}

// OpenID returns the id and the signature that [ID] put together. An id
// without a signature comes back as it is.
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
