// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const signatureScheme = "AWS4-HMAC-SHA256"

// unsigned returns the fault of a request's signature, "" for a valid one.
func (h *Handler) unsigned(r *http.Request, body []byte) string {
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. The check is
	// written from that description alone, independent of our signer.
	fields, ok := strings.CutPrefix(r.Header.Get("Authorization"), signatureScheme+" ")
	if !ok {
		return "Missing Authentication Token"
	}
	said := map[string]string{}
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		said[name] = value
	}
	scope := strings.Split(said["Credential"], "/") // key, day, region, service, aws4_request
	secret, known := "", false
	if len(scope) == 5 {
		secret, known = h.Keys[scope[0]]
	}
	if !known {
		return "The security token included in the request is invalid."
	}
	key := []byte("AWS4" + secret)
	for _, s := range scope[1:] {
		key = sign(key, s)
	}
	canonical := sha256.Sum256([]byte(canonicalRequest(r, strings.Split(said["SignedHeaders"], ";"), body)))
	text := strings.Join([]string{
		signatureScheme, r.Header.Get("X-Amz-Date"), strings.Join(scope[1:], "/"),
		hex.EncodeToString(canonical[:]),
	}, "\n")
	if said["Signature"] != hex.EncodeToString(sign(key, text)) {
		return "The request signature we calculated does not match the signature you provided."
	}
	return ""
}

func canonicalRequest(r *http.Request, signed []string, body []byte) string {
	sum := sha256.Sum256(body)
	query := r.URL.Query()
	for _, values := range query {
		slices.Sort(values)
	}
	lines := []string{r.Method, escaped(r.URL.EscapedPath()), strings.ReplaceAll(query.Encode(), "+", "%20")}
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = r.Host
		}
		lines = append(lines, name+":"+strings.TrimSpace(value))
	}
	return strings.Join(append(lines, "", strings.Join(signed, ";"), hex.EncodeToString(sum[:])), "\n")
}

func escaped(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	}
	return strings.Join(segments, "/")
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
