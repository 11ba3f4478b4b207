! check.f90: what the tests share: conditions that must hold, and one sum of failures over all ranks.
module check
  implicit none
  private
  integer :: failures = 0
  integer, parameter, public :: integer_bytes = storage_size(0) / 8  ! bytes of an INTEGER
  public :: that, equal, failed
  interface equal
    module procedure equal_4, equal_8
  end interface
contains
  subroutine that(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(2a)', 'wrong: ', what
  end subroutine that
  subroutine equal_4(found, expected, what)
    use, intrinsic :: iso_c_binding, only: c_int32_t
    integer(c_int32_t), intent(in) :: found
    integer, intent(in) :: expected
    character(len=*), intent(in) :: what
    if (found == expected) return
    failures = failures + 1
    print '(3a,i0,a,i0)', 'wrong: ', what, ' is ', found, ', expected ', expected
  end subroutine equal_4
  subroutine equal_8(found, expected, what)
    use, intrinsic :: iso_c_binding, only: c_int64_t
    integer(c_int64_t), intent(in) :: found
    integer, intent(in) :: expected
    character(len=*), intent(in) :: what
    if (found == expected) return
    failures = failures + 1
    print '(3a,i0,a,i0)', 'wrong: ', what, ' is ', found, ', expected ', expected
  end subroutine equal_8
  integer function failed()
    failed = failures
  end function failed
end module check
