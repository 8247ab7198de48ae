// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package handler is the HTTP side of llm_cache: the Caddy handler that reads
// a request, lets the pipeline edit it, hands it on and watches the answer.
//
// A request takes this way:
//
//	ServeHTTP ▷ site.go      requests for a model, and all others
//	          ▷ arrival.go   read and decode the body, bounded
//	          ▷ prepare.go   parse, find the session, edit; or fail open
//	          ▷ tap.go       the answer's writer: the client first, then a look
//	          ▷ chain.go     the layers, in this order
//	                ─ span
//	                ─ unkept ids
//	                ─ applied edits
//	                ─ rejoin
//	                ─ queue
//	                ─ beside the queue
//	                ─ write barrier
//	                ─ usage
//	                ─ translate
//	                ─ overlay
//	                ─ prefix recorder
//	                ─ compat
//	                ─ length
//	                ─ unpack
//	                ─ sign
//	                ─ threads
//	                ─ websocket
//	                ─ letta
//	                ─ hold
//	                ─ side requests
//	          ▷ next         reverse_proxy
//	          ▷ resend.go          once more without edits, after a refusal
//	          ▷ request_state.go   commit, count
//
// Internal requests (pings, warm-ups, idle folds), side requests and requests that are not
// understood take some of the layers: chain.go has the list.
package handler
