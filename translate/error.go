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

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Failure is an error of an API: the answer to a request, or the end of a
// stream. Clients act on its status, its type and, in some cases, its wording,
// so that each goes out as the client's own API would say it.
type Failure struct {
	// Status is the HTTP status, 0 in a stream.
	Status int
	// Type and Code are the upstream's own words for what went wrong.
	Type, Code string
	// Message is the upstream's text.
	Message string
	// RetryAfter is how many seconds to wait, 0 if the upstream did not say so
	// in the body.
	RetryAfter int

	fault         fault
	tokens, limit int64 // of a prompt that is too long, if known
}

// fault is what went wrong, in the terms that all APIs share.
type fault uint8

const (
	faultUnknown fault = iota
	faultInvalid
	faultAuthentication
	faultBilling
	faultPermission
	faultNotFound
	faultConflict
	faultTooLarge
	faultRate
	faultServer
	faultOverloaded
	faultTimeout
	faultContext // the prompt does not fit the context window
)

// statusOverloaded is Anthropic's own status for an overload. Claude Code gives
// up after three of them and is more patient with a 503, so that only an
// overload becomes one.
const statusOverloaded = 529

// Refusal is the failure that says that a request cannot be put into the
// upstream's format. A body that is not a request at all is one, too.
func Refusal(err error) *Failure {
	f := &Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: err.Error(), fault: faultInvalid}
	if u, ok := errors.AsType[*Unsupported](err); ok {
		f.Code = "unsupported_value"
		f.Message = "the upstream speaks another format that cannot carry this request: " + u.Error()
	}
	return f
}

// complete finds out what went wrong.
func (f *Failure) complete() {
	if f.Message == "" {
		f.Message = http.StatusText(f.Status)
	}
	if f.Message == "" {
		f.Message = "the upstream reported an error without a text"
	}
	if f.fault != faultUnknown {
		return
	}
	if f.tooLong() {
		f.fault = faultContext
		return
	}
	words := strings.ToLower(f.Type + " " + f.Code)
	for _, w := range faultWords {
		if strings.Contains(words, w.word) {
			f.fault = w.fault
			break
		}
	}
	if by, ok := faultOfStatus[f.Status]; ok && (f.fault == faultUnknown || f.fault == faultInvalid || f.fault == faultServer) {
		f.fault = by
	}
	if f.fault == faultServer && strings.Contains(strings.ToLower(f.Message), "overloaded") {
		f.fault = faultOverloaded
	}
	if f.fault == faultUnknown {
		f.fault = faultServer
		if f.Status >= 400 && f.Status < 500 {
			f.fault = faultInvalid
		}
	}
}

// faultWords are parts of the types, codes and states that APIs use. The first
// that is found counts.
var faultWords = []struct {
	word  string
	fault fault
}{
	{"overloaded", faultOverloaded},
	{"unavailable", faultOverloaded},
	{"insufficient_quota", faultBilling},
	{"billing", faultBilling},
	{"rate_limit", faultRate},
	{"resource_exhausted", faultRate},
	{"too_many_requests", faultRate},
	{"authentication", faultAuthentication},
	{"unauthenticated", faultAuthentication},
	{"invalid_api_key", faultAuthentication},
	{"permission", faultPermission},
	{"too_large", faultTooLarge},
	{"not_found", faultNotFound},
	{"notfound", faultNotFound},
	{"conflict", faultConflict},
	{"aborted", faultConflict},
	{"timeout", faultTimeout},
	{"deadline_exceeded", faultTimeout},
	{"invalid", faultInvalid},
	{"failed_precondition", faultInvalid},
	{"out_of_range", faultInvalid},
	{"badrequest", faultInvalid},
}

var faultOfStatus = map[int]fault{
	http.StatusUnauthorized:          faultAuthentication,
	http.StatusPaymentRequired:       faultBilling,
	http.StatusForbidden:             faultPermission,
	http.StatusNotFound:              faultNotFound,
	http.StatusConflict:              faultConflict,
	http.StatusRequestEntityTooLarge: faultTooLarge,
	http.StatusTooManyRequests:       faultRate,
	http.StatusInternalServerError:   faultServer,
	http.StatusBadGateway:            faultServer,
	http.StatusServiceUnavailable:    faultServer,
	http.StatusGatewayTimeout:        faultTimeout,
	statusOverloaded:                 faultOverloaded,
}

// tooLongTexts are what servers say when the prompt does not fit. Sources:
// Anthropic, OpenAI, vLLM, Gemini, llama.cpp, LM Studio, Ollama.
var tooLongTexts = []*regexp.Regexp{
	regexp.MustCompile(`prompt is too long(?:: (?P<n>\d+) tokens > (?P<m>\d+))?`),
	regexp.MustCompile(`maximum context length is (?P<m>\d+) tokens(?:.*?(?:resulted in|requested|contains?)(?: at least)?(?: about)? (?P<n>\d+))?`),
	regexp.MustCompile(`input token count(?: \((?P<n>\d+)\))? exceeds the maximum number of tokens(?: allowed)?(?: \(?(?P<m>\d+))?`),
	regexp.MustCompile(`exceeds the context window`),
	regexp.MustCompile(`request(?: \((?P<n>\d+) tokens\))? exceeds the available context size(?: \((?P<m>\d+) tokens\))?`),
	regexp.MustCompile(`context length of only (?P<m>\d+) tokens`),
	regexp.MustCompile(`(?:input|prompt)(?: length)? exceeds (?:the )?(?:maximum )?context length`),
}

// tooLong reports whether the failure is that of a prompt which is too long, and
// finds the numbers.
func (f *Failure) tooLong() bool {
	if f.Status >= 500 || f.Status == http.StatusUnauthorized || f.Status == http.StatusTooManyRequests {
		return false
	}
	found := f.Code == "context_length_exceeded" || f.Type == "exceed_context_size_error"
	text := f.Message
	if len(text) > 4<<10 {
		text = text[:4<<10]
	}
	for _, re := range tooLongTexts {
		m := re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		found = true
		for i, name := range re.SubexpNames() {
			n, err := strconv.ParseInt(m[i], 10, 64)
			if err != nil {
				continue
			}
			switch name {
			case "n":
				f.tokens = n
			case "m":
				f.limit = n
			}
		}
		break
	}
	return found
}
