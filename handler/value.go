// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap/zapcore"
)

// value is a text, a number or a flag about a request. The zero value is one that is not known. It is no
// interface, which would allocate.
type value struct {
	kind valueKind
	text string
	n    int64
	f    float64
}

type valueKind uint8

const (
	isUnknown valueKind = iota
	isText
	isWord // a text that is a token in headers
	isNumber
	isFraction
	isFlag
)

// text returns the value of a text, unknown if it is empty.
func text(s string) value { return value{kind: isText, text: s}.unless(s == "") }

// word returns the value of a token, unknown if it is empty.
func word(s string) value { return value{kind: isWord, text: s}.unless(s == "") }

func number[N int | int64](n N) value { return value{kind: isNumber, n: int64(n)} }

func seconds(d time.Duration) value { return value{kind: isFraction, f: d.Seconds()} }

func dollars(usd float64) value { return value{kind: isFraction, f: usd} }

// flag returns a flag that is set, or an unknown value.
func flag(set bool) value { return value{kind: isFlag}.unless(!set) }

// unless returns the value, or an unknown one.
func (v value) unless(unknown bool) value {
	if unknown {
		return value{}
	}
	return v
}

func (v value) known() bool { return v.kind != isUnknown }

// String returns the value as a header has it.
func (v value) String() string {
	switch v.kind {
	case isNumber:
		return strconv.FormatInt(v.n, 10)
	case isFraction:
		return strconv.FormatFloat(v.f, 'f', -1, 64)
	case isFlag:
		return "1"
	}
	return v.text
}

// appendParameter appends the value as a parameter of a structured field. A text that cannot stand in one
// is left out.
func (v value) appendParameter(b []byte, name string) []byte {
	if !v.known() || v.kind == isText && strings.ContainsFunc(v.text, unquotable) {
		return b
	}
	b = append(append(b, "; "...), name...)
	switch v.kind {
	case isFlag:
		return b
	case isText:
		return append(append(append(b, `="`...), v.text...), '"')
	case isNumber:
		return strconv.AppendInt(append(b, '='), v.n, 10)
	}
	return append(append(b, '='), v.String()...)
}

// unquotable reports whether a character cannot stand in the string of a structured field as it is.
func unquotable(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// any returns the value of a placeholder, an empty text for an unknown one.
func (v value) any() any {
	switch v.kind {
	case isNumber:
		return v.n
	case isFraction:
		return v.f
	case isFlag:
		return true
	}
	return v.text
}

// log adds the value to a line of the access log.
func (v value) log(e zapcore.ObjectEncoder, name string) {
	switch v.kind {
	case isUnknown:
	case isNumber:
		e.AddInt64(name, v.n)
	case isFraction:
		e.AddFloat64(name, v.f)
	case isFlag:
		e.AddBool(name, true)
	default:
		e.AddString(name, v.text)
	}
}

// attribute returns the value as an attribute of a span.
func (v value) attribute(key attribute.Key) attribute.KeyValue {
	switch v.kind {
	case isNumber:
		return key.Int64(v.n)
	case isFraction:
		return key.Float64(v.f)
	case isFlag:
		return key.Bool(true)
	}
	return key.String(v.text)
}
