// dlsym, dlvsym and dlopen as programs see them. Names that are not ours go on by a jump, so that the real function sees the
// caller's own return address: RTLD_NEXT and RTLD_DEFAULT mean "as seen from the caller".
//
// extern "C" void* swapadvisor_route(void* handle, const char* name, const char* version, void* caller, int* answered)

#if !defined(__x86_64__)
#error "interpose/dlsym.S: written for x86-64"
#endif

    .text

.macro ROUTE version_register, target
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    sub $16, %rsp
    .cfi_adjust_cfa_offset 16
    movl $0, (%rsp)
    mov \version_register, %rdx
    mov 40(%rsp), %rcx
    mov %rsp, %r8
    call swapadvisor_route
    mov (%rsp), %ecx
    add $16, %rsp
    .cfi_adjust_cfa_offset -16
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %ecx, %ecx
    jz 1f
    ret
1:  jmp *\target(%rip)
    .cfi_endproc
.endm

    .globl swapadvisor_dlsym, swapadvisor_dlsym_old, swapadvisor_dlvsym, swapadvisor_dlvsym_old
    .type swapadvisor_dlsym, @function
    .type swapadvisor_dlsym_old, @function
    .type swapadvisor_dlvsym, @function
    .type swapadvisor_dlvsym_old, @function

swapadvisor_dlsym:
swapadvisor_dlsym_old:
    xor %edx, %edx
    ROUTE %rdx, swapadvisor_real_dlsym
    .size swapadvisor_dlsym, . - swapadvisor_dlsym
    .size swapadvisor_dlsym_old, . - swapadvisor_dlsym_old

swapadvisor_dlvsym:
swapadvisor_dlvsym_old:
    ROUTE %rdx, swapadvisor_real_dlvsym
    .size swapadvisor_dlvsym, . - swapadvisor_dlvsym
    .size swapadvisor_dlvsym_old, . - swapadvisor_dlvsym_old

// dlopen only notes that the driver was wanted, and goes on: the caller's own search path and namespace stay in force.
// extern "C" void swapadvisor_note_open(const char* name, int flags)
    .globl swapadvisor_dlopen, swapadvisor_dlopen_old
    .type swapadvisor_dlopen, @function
    .type swapadvisor_dlopen_old, @function
swapadvisor_dlopen:
swapadvisor_dlopen_old:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call swapadvisor_note_open
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    jmp *swapadvisor_real_dlopen(%rip)
    .cfi_endproc
    .size swapadvisor_dlopen, . - swapadvisor_dlopen
    .size swapadvisor_dlopen_old, . - swapadvisor_dlopen_old

    .symver swapadvisor_dlopen, dlopen@@GLIBC_2.34
    .symver swapadvisor_dlopen_old, dlopen@GLIBC_2.2.5
    .symver swapadvisor_dlsym, dlsym@@GLIBC_2.34
    .symver swapadvisor_dlsym_old, dlsym@GLIBC_2.2.5
    .symver swapadvisor_dlvsym, dlvsym@@GLIBC_2.34
    .symver swapadvisor_dlvsym_old, dlvsym@GLIBC_2.2.5

    .section .note.GNU-stack, "", @progbits
