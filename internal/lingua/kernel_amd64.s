// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The tile of a that multiply8x48 reads has its rows at AX, AX+DX, AX+2DX,
// R8 = AX+3DX and so on, that of c at DI, SI apart.

#define ROW512(at, v, c0, c1, c2) \
	VBROADCASTSS at, v        \
	VFMADD231PS  Z0, v, c0    \
	VFMADD231PS  Z1, v, c1    \
	VFMADD231PS  Z2, v, c2

#define LOAD512(c0, c1, c2) \
	VMOVUPS (R11), c0    \
	VMOVUPS 64(R11), c1  \
	VMOVUPS 128(R11), c2 \
	ADDQ    SI, R11

#define STORE512(c0, c1, c2) \
	VMOVUPS c0, (DI)    \
	VMOVUPS c1, 64(DI)  \
	VMOVUPS c2, 128(DI) \
	ADDQ    SI, DI

// func multiply8x48(c *float32, cStride int, a *float32, aStride int, b *float32, depth int)
TEXT ·multiply8x48(SB), NOSPLIT, $0-48
	MOVQ c+0(FP), DI
	MOVQ cStride+8(FP), SI
	MOVQ a+16(FP), AX
	MOVQ aStride+24(FP), DX
	MOVQ b+32(FP), BX
	MOVQ depth+40(FP), CX
	LEAQ (DX)(DX*2), R10
	LEAQ (AX)(R10*1), R8
	LEAQ (R8)(R10*1), R9
	MOVQ DI, R11
	LOAD512(Z8, Z9, Z10)
	LOAD512(Z11, Z12, Z13)
	LOAD512(Z14, Z15, Z16)
	LOAD512(Z17, Z18, Z19)
	LOAD512(Z20, Z21, Z22)
	LOAD512(Z23, Z24, Z25)
	LOAD512(Z26, Z27, Z28)
	LOAD512(Z29, Z30, Z31)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	VMOVUPS 128(BX), Z2
	ROW512((AX), Z3, Z8, Z9, Z10)
	ROW512((AX)(DX*1), Z4, Z11, Z12, Z13)
	ROW512((AX)(DX*2), Z5, Z14, Z15, Z16)
	ROW512((R8), Z6, Z17, Z18, Z19)
	ROW512((R8)(DX*1), Z7, Z20, Z21, Z22)
	ROW512((R8)(DX*2), Z3, Z23, Z24, Z25)
	ROW512((R9), Z4, Z26, Z27, Z28)
	ROW512((R9)(DX*1), Z5, Z29, Z30, Z31)
	ADDQ $4, AX
	ADDQ $4, R8
	ADDQ $4, R9
	ADDQ $192, BX
	DECQ CX
	JNZ  loop

	STORE512(Z8, Z9, Z10)
	STORE512(Z11, Z12, Z13)
	STORE512(Z14, Z15, Z16)
	STORE512(Z17, Z18, Z19)
	STORE512(Z20, Z21, Z22)
	STORE512(Z23, Z24, Z25)
	STORE512(Z26, Z27, Z28)
	STORE512(Z29, Z30, Z31)
	VZEROUPPER
	RET

#define ROW256(at, c0, c1, c2) \
	VBROADCASTSS at, Y3     \
	VFMADD231PS  Y0, Y3, c0 \
	VFMADD231PS  Y1, Y3, c1 \
	VFMADD231PS  Y2, Y3, c2

#define LOAD256(c0, c1, c2) \
	VMOVUPS (R11), c0   \
	VMOVUPS 32(R11), c1 \
	VMOVUPS 64(R11), c2 \
	ADDQ    SI, R11

#define STORE256(c0, c1, c2) \
	VMOVUPS c0, (DI)   \
	VMOVUPS c1, 32(DI) \
	VMOVUPS c2, 64(DI) \
	ADDQ    SI, DI

// func multiply4x24(c *float32, cStride int, a *float32, aStride int, b *float32, depth int)
TEXT ·multiply4x24(SB), NOSPLIT, $0-48
	MOVQ c+0(FP), DI
	MOVQ cStride+8(FP), SI
	MOVQ a+16(FP), AX
	MOVQ aStride+24(FP), DX
	MOVQ b+32(FP), BX
	MOVQ depth+40(FP), CX
	LEAQ (AX)(DX*2), R8
	MOVQ DI, R11
	LOAD256(Y4, Y5, Y6)
	LOAD256(Y7, Y8, Y9)
	LOAD256(Y10, Y11, Y12)
	LOAD256(Y13, Y14, Y15)

loop:
	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	VMOVUPS 64(BX), Y2
	ROW256((AX), Y4, Y5, Y6)
	ROW256((AX)(DX*1), Y7, Y8, Y9)
	ROW256((R8), Y10, Y11, Y12)
	ROW256((R8)(DX*1), Y13, Y14, Y15)
	ADDQ $4, AX
	ADDQ $4, R8
	ADDQ $192, BX
	DECQ CX
	JNZ  loop

	STORE256(Y4, Y5, Y6)
	STORE256(Y7, Y8, Y9)
	STORE256(Y10, Y11, Y12)
	STORE256(Y13, Y14, Y15)
	VZEROUPPER
	RET

// Constants of exp: log2 e, ln 2 in two parts, the polynomial of Cephes' expf,
// the least argument with a normal result.
DATA exponent<>+0(SB)/4, $1.44269504088896341
DATA exponent<>+4(SB)/4, $0.693359375
DATA exponent<>+8(SB)/4, $-2.12194440e-4
DATA exponent<>+12(SB)/4, $1.9875691500e-4
DATA exponent<>+16(SB)/4, $1.3981999507e-3
DATA exponent<>+20(SB)/4, $8.3334519073e-3
DATA exponent<>+24(SB)/4, $4.1665795894e-2
DATA exponent<>+28(SB)/4, $1.6666665459e-1
DATA exponent<>+32(SB)/4, $5.0000001201e-1
DATA exponent<>+36(SB)/4, $1.0
DATA exponent<>+40(SB)/4, $-87.3
GLOBL exponent<>(SB), RODATA|NOPTR, $44

// EXP makes exp(x) for x ≤ 0, with 1 in one; it uses n and p.
#define EXP(x, n, p, one) \
	VBROADCASTSS exponent<>+40(SB), n   \
	VMAXPS       n, x, x                \
	VBROADCASTSS exponent<>+0(SB), n    \
	VMULPS       n, x, n                \
	VROUNDPS     $8, n, n               \
	VBROADCASTSS exponent<>+4(SB), p    \
	VFNMADD231PS p, n, x                \
	VBROADCASTSS exponent<>+8(SB), p    \
	VFNMADD231PS p, n, x                \
	VCVTPS2DQ    n, n                   \
	VPSLLD       $23, n, n              \
	VBROADCASTSS exponent<>+12(SB), p   \
	VBROADCASTSS exponent<>+16(SB), Y15 \
	VFMADD213PS  Y15, x, p              \
	VBROADCASTSS exponent<>+20(SB), Y15 \
	VFMADD213PS  Y15, x, p              \
	VBROADCASTSS exponent<>+24(SB), Y15 \
	VFMADD213PS  Y15, x, p              \
	VBROADCASTSS exponent<>+28(SB), Y15 \
	VFMADD213PS  Y15, x, p              \
	VBROADCASTSS exponent<>+32(SB), Y15 \
	VFMADD213PS  Y15, x, p              \
	VMULPS       x, x, Y15              \
	VFMADD213PS  x, Y15, p              \
	VADDPS       one, p, p              \
	VPADDD       n, p, x

// func exps(x *float32, n int, scale float32) float32
TEXT ·exps(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS scale+16(FP), Y8
	MOVQ DI, AX
	MOVQ CX, DX
	VMOVUPS (AX), Y0

top:
	VMAXPS (AX), Y0, Y0
	ADDQ $32, AX
	SUBQ $8, DX
	JNZ  top

	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VSHUFPS $0x4E, X0, X0, X1
	VMAXPS X1, X0, X0
	VSHUFPS $0xB1, X0, X0, X1
	VMAXPS X1, X0, X0
	VBROADCASTSS X0, Y9
	VBROADCASTSS exponent<>+36(SB), Y10
	VXORPS Y11, Y11, Y11

loop:
	VMOVUPS (DI), Y0
	VSUBPS Y9, Y0, Y0
	VMULPS Y8, Y0, Y0
	EXP(Y0, Y1, Y2, Y10)
	VMOVUPS Y0, (DI)
	VADDPS Y0, Y11, Y11
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop

	VEXTRACTF128 $1, Y11, X1
	VADDPS X1, X11, X0
	VSHUFPS $0x4E, X0, X0, X1
	VADDPS X1, X0, X0
	VSHUFPS $0xB1, X0, X0, X1
	VADDPS X1, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// Constants of erf: 1/√2, Abramowitz and Stegun 7.1.26, a half, and what
// takes the sign away.
DATA error<>+0(SB)/4, $0.70710678118654752
DATA error<>+4(SB)/4, $0.3275911
DATA error<>+8(SB)/4, $0.254829592
DATA error<>+12(SB)/4, $-0.284496736
DATA error<>+16(SB)/4, $1.421413741
DATA error<>+20(SB)/4, $-1.453152027
DATA error<>+24(SB)/4, $1.061405429
DATA error<>+28(SB)/4, $0.5
DATA error<>+32(SB)/4, $0x7fffffff
GLOBL error<>(SB), RODATA|NOPTR, $36

// func gelus(x *float32, n int)
TEXT ·gelus(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS exponent<>+36(SB), Y10
	VBROADCASTSS error<>+0(SB), Y9
	VBROADCASTSS error<>+4(SB), Y8
	VBROADCASTSS error<>+8(SB), Y7
	VBROADCASTSS error<>+12(SB), Y6
	VBROADCASTSS error<>+28(SB), Y14
	VBROADCASTSS error<>+32(SB), Y13
	VXORPS Y12, Y12, Y12

loop:
	VMOVUPS (DI), Y0
	VANDPS Y13, Y0, Y1        // |x|
	VMULPS Y9, Y1, Y2         // z
	VMOVAPS Y8, Y3
	VFMADD213PS Y10, Y2, Y3
	VDIVPS Y3, Y10, Y3        // t = 1/(1+pz)
	VBROADCASTSS error<>+24(SB), Y4
	VBROADCASTSS error<>+20(SB), Y15
	VFMADD213PS Y15, Y3, Y4
	VBROADCASTSS error<>+16(SB), Y15
	VFMADD213PS Y15, Y3, Y4
	VFMADD213PS Y6, Y3, Y4
	VFMADD213PS Y7, Y3, Y4
	VMULPS Y3, Y4, Y4
	VMULPS Y2, Y2, Y2
	VSUBPS Y2, Y12, Y2        // -z²
	EXP(Y2, Y5, Y11, Y10)
	VFNMADD213PS Y10, Y2, Y4  // erf z = 1 - poly·exp(-z²)
	VMULPS Y4, Y1, Y1
	VADDPS Y0, Y1, Y1         // x + |x|·erf z
	VMULPS Y14, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET
